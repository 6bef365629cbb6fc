/** Tables of a control plane's `gateways.db`, which backups copy too. */
export const gatewaysSql = `
  CREATE TABLE IF NOT EXISTS gateway (incarnation TEXT PRIMARY KEY, report TEXT NOT NULL);
  CREATE TABLE IF NOT EXISTS ended (at INTEGER PRIMARY KEY, incarnation TEXT NOT NULL UNIQUE, n INTEGER NOT NULL);
`;
