/**
 * Signs usage records in tests that fold usage without a fleet. The stores of those tests accept only records that it signed.
 */
import { usageTopic } from '../../schemas/records/usage.ts';
import { RecordMac } from '../../shared/log/core/record-mac.ts';

export const usageMac = new RecordMac(usageTopic, 'gateway-token-of-the-tests');
