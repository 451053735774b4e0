// A certificate for localhost that nobody vouches for, for TLS.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { generate } from 'selfsigned'
import { onClose } from './harness.ts'

/** Certificate and key as PEM, and the files they are in until the test's end. */
export async function makeCertificate() {
  const { cert, private: key } = await generate([{ name: 'commonName', value: 'localhost' }], {
    extensions: [{ name: 'subjectAltName', altNames: [{ type: 2, value: 'localhost' }] }]
  })
  const folder = mkdtempSync(join(tmpdir(), 'service-tls-'))
  onClose(async () => rmSync(folder, { recursive: true, force: true }))
  const [certFile, keyFile] = [join(folder, 'cert.pem'), join(folder, 'key.pem')]
  writeFileSync(certFile, cert)
  writeFileSync(keyFile, key, { mode: 0o600 })
  return { cert, key, certFile, keyFile }
}
