/** The acting party: a trader, or the partner itself; its rows and its money belong to the partner either way. */
export interface Party {
  partnerId: string
  partyId: string
}
