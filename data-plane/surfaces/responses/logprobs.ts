/** Converts log probabilities to the format of the Responses API, which includes the bytes of each token. */
import type { ChatLogprobs, TokenLogprob } from '../common/chat-parts.ts';

export type ResponseLogprob = ChatLogprobs['content'][number];

export function toResponseLogprobs(
  given: ChatLogprobs | undefined | null,
): readonly ResponseLogprob[] | undefined {
  return given?.content.map((entry) => ({
    ...withBytes(entry),
    top_logprobs: entry.top_logprobs.map(withBytes),
  }));
}

function withBytes(entry: TokenLogprob): TokenLogprob {
  return entry.bytes === null ? { ...entry, bytes: [...Buffer.from(entry.token)] } : entry;
}
