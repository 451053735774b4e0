// The bounds of the heap of api and worker processes, as package.json has them for its scripts. What else starts them has the same
// (test/operator/deploy.test.ts).
import about from '../../package.json' with { type: 'json' }

/** Flags of Node. */
export const heapFlags: string[] = about.scripts.api.split(' ').filter(word => word.startsWith('--max-'))
