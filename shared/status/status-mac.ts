/** Authenticates status records, whose writers have the gateway token. */
import { statusTopic } from '../../schemas/records/status.ts';
import { RecordMac } from '../log/core/record-mac.ts';

export class StatusMac extends RecordMac {
  constructor(...tokens: readonly [string, ...string[]]) {
    super(statusTopic, ...tokens);
  }
}
