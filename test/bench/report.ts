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
  const format = (value: number) => value.toFixed(digits)
  return `${format(median(values))}${unit} (${format(Math.min(...values))}–${format(Math.max(...values))})`
}

/** The median of differences with its 95 % confidence interval. */
export interface MedianWithInterval {
  median: number
  low: number
  high: number
}

/**
 * The median with the interval by order statistics, which assumes nothing about the distribution: the bounds are the values 1.96
 * standard deviations of a binomial(n, ½) below and above the middle (Conover, Practical Nonparametric Statistics, §3.2).
 */
export function medianWithInterval(values: number[]): MedianWithInterval {
  const sorted = [...values].sort((a, b) => a - b)
  const half = 0.98 * Math.sqrt(sorted.length)
  const at = (index: number) => sorted[Math.min(Math.max(index, 0), sorted.length - 1)] as number
  const low = at(Math.floor(sorted.length / 2 - half) - 1)
  const high = at(Math.ceil(sorted.length / 2 + half))
  return { median: median(values), low, high }
}

/** `median (low–high)`; "to" between the bounds, since they may be negative. */
export function interval({ median, low, high }: MedianWithInterval, unit: string, digits: number): string {
  const [middle, from, to] = [median, low, high].map(value => value.toFixed(digits))
  return `${middle}${unit} (${from} to ${to})`
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
