// Text in files that spreadsheets open.

// A program that opens the file may take text that begins so for a formula, wide forms of these characters included. A number with a
// minus is none.
const FORMULA = /^[=+@\t\r\uFF1D\uFF0B\uFF0D\uFF20]|^-(?!\d+(\.\d+)?$)/

/** The text as a cell, with an apostrophe before it where a program might run it as a formula. */
export function textCell(text: string): string {
  return FORMULA.test(text) ? `'${text}` : text
}
