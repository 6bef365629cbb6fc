/** Authenticates status records by the gateway token, which all their writers have. */
import { statusTopic } from '../../schemas/records/status.ts';
import { RecordMac } from '../log/core/record-mac.ts';

export class StatusMac extends RecordMac {
  constructor(...tokens: readonly [string, ...string[]]) {
    super(statusTopic, ...tokens);
  }
}
