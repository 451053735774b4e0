// Which addresses are public: global unicast, and no form under which another address hides.
import { BlockList, isIP } from 'node:net'

// IANA's special-purpose registries, multicast, and IPv6 forms that carry an IPv4 address (mapped, compatible, NAT64, 6to4, Teredo).
const v4: [string, number][] = [
  ['0.0.0.0', 8],
  ['10.0.0.0', 8],
  ['100.64.0.0', 10],
  ['127.0.0.0', 8],
  ['169.254.0.0', 16],
  ['172.16.0.0', 12],
  ['192.0.0.0', 24],
  ['192.0.2.0', 24],
  ['192.31.196.0', 24],
  ['192.52.193.0', 24],
  ['192.88.99.0', 24],
  ['192.168.0.0', 16],
  ['192.175.48.0', 24],
  ['198.18.0.0', 15],
  ['198.51.100.0', 24],
  ['203.0.113.0', 24],
  ['224.0.0.0', 4],
  ['240.0.0.0', 4],
  // The metadata service of one cloud and the platform address of another lie in public ranges.
  ['168.63.129.16', 32],
  ['100.100.100.200', 32]
]
const v6: [string, number][] = [
  // Global unicast is 2000::/3; all else is not.
  ['::', 3],
  ['4000::', 2],
  ['8000::', 1],
  ['2001::', 23],
  ['2001:db8::', 32],
  ['2002::', 16],
  ['2620:4f:8000::', 48],
  ['3fff::', 20]
]

const hidden = new BlockList()
for (const [net, bits] of v4) hidden.addSubnet(net, bits, 'ipv4')
const hidden6 = new BlockList()
for (const [net, bits] of v6) hidden6.addSubnet(net, bits, 'ipv6')

/** Whether an IP address, as text and with no zone, is a public unicast address. */
export function isPublicAddress(address: string): boolean {
  const family = isIP(address)
  if (family === 4) return !hidden.check(address, 'ipv4')
  return family === 6 && !address.includes('%') && !hidden6.check(address, 'ipv6')
}
