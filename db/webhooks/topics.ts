// What is published on the workers' channel about webhooks.

/** An endpoint has something new: settings, a retry, a replay; the id is the endpoint's. */
export const WEBHOOKS = 'webhooks'
/** A test is to be sent; the id is the test's. */
export const WEBHOOK_TESTS = 'webhooks.test'
