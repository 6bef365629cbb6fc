/** Shrinks a failing run: leaves out parts of it as long as it still fails. */

/** Returns few of the parts with which `fails` still holds. Tries large pieces first, then single parts. */
export function shrink(
  parts: readonly string[],
  fails: (kept: readonly string[]) => boolean,
): readonly string[] {
  let kept = parts;
  for (let size = Math.ceil(kept.length / 2); size > 0; size = size === 1 ? 0 : Math.ceil(size / 2))
    for (let at = 0; at < kept.length; ) {
      const rest = [...kept.slice(0, at), ...kept.slice(at + size)];
      if (fails(rest)) kept = rest;
      else at += size;
    }
  return kept;
}
