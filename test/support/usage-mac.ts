/** Signs usage records in tests that fold usage without a fleet. Stores of those tests accept only records signed with it. */
import { usageTopic } from '../../schemas/records/usage.ts';
import { RecordMac } from '../../shared/log/core/record-mac.ts';

export const usageMac = new RecordMac(usageTopic, 'gateway-token-of-the-tests');
