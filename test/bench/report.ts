// How the bench reports its figures: tables, the goal beside each figure, the spread over its rounds.
import { readFile } from 'node:fs/promises'
import Table from 'cli-table3'
import { median } from './stage.ts'

/** A table on stdout under its title, which names the conditions. */
export function print(title: string, head: string[], body: string[][]): void {
  const table = new Table({ head, style: { head: [], border: [] } })
  table.push(...body)
  console.log(`\n${title}\n${table.toString()}`)
}

/** `median (least–most)` of the rounds of one figure. */
export function range(values: number[], unit = '', digits = 0): string {
  const told = (value: number) => value.toFixed(digits)
  return `${told(median(values))}${unit} (${told(Math.min(...values))}–${told(Math.max(...values))})`
}

/** `goal` and whether it was met. */
export function verdict(goal: string, met: boolean): string {
  return `${goal}: ${met ? 'met' : 'MISSED'}`
}

/** Resident memory of a process in MB. */
export async function memoryOf(pid: number | undefined): Promise<number> {
  const status = await readFile(`/proc/${pid}/status`, 'utf8').catch(() => '')
  return Number(/VmRSS:\s+(\d+)/.exec(status)?.[1] ?? Number.NaN) / 1024
}
