// The renewals of 0157 once more, for tokens of which workers of the version before it have lost the next renewal since. From 0168 on none is lost.
export { config, up } from './0157_renewals_resumed.ts'
