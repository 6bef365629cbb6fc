import { expect } from 'vitest';
import { Refusal } from '../../shared/decision/refusal.ts';

/** Returns the message with which the schema refuses a request body. Fails if the body is accepted. */
export function shapeRefusal(act: () => unknown): string {
  try {
    act();
  } catch (error) {
    expect(error).toBeInstanceOf(Refusal);
    expect((error as Refusal).type).toBe('UnsupportedShapeError');
    return (error as Refusal).message;
  }
  throw new Error('was not refused');
}
