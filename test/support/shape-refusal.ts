import { expect } from 'vitest';
import { Refusal } from '../../shared/decision/refusal.ts';

/** The message with which a shape refuses a body; fails where there is no refusal. */
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
