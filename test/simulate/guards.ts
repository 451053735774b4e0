// The guards that `make mutants` takes out in turn. test/request/guards.test.ts holds their edits against the source.
import type { Guard } from './guard.ts'
import { simulatedGuards } from './simulated-guards.ts'
import { testedGuards } from './tested-guards.ts'

export const guards: Guard[] = [...testedGuards, ...simulatedGuards]
