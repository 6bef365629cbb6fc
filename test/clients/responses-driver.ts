/** Driver for the official OpenAI library on POST /v1/responses. Its stream reader is the strictest of all libraries. */
import type OpenAI from 'openai';
import type { ResponseInput, Tool } from 'openai/resources/responses/responses';
import { type Ask, type Client, failureOf, toolResult, weather } from './client.ts';
import type { Target } from './client-fleet.ts';

export function responsesClient(name: string, Library: typeof OpenAI): Client {
  const open = ({ url, key }: Target): OpenAI => new Library({ baseURL: url, apiKey: key });
  const inputOf = ({ text, image }: Ask): string | ResponseInput =>
    image === undefined
      ? text
      : [
          {
            role: 'user',
            content: [
              { type: 'input_text', text },
              { type: 'input_image', image_url: image, detail: 'auto' },
            ],
          },
        ];
  const bodyOf = (ask: Ask) => ({ model: ask.model, input: inputOf(ask), ...ask.extra });
  return {
    name,
    chat: async (ask) =>
      (await open(ask).responses.create(bodyOf(ask), { headers: ask.headers ?? {} })).output_text,
    stream: async (ask) => {
      let text = '';
      const stream = open(ask).responses.stream(bodyOf(ask));
      for await (const event of stream) if (event.type === 'response.output_text.delta') text += event.delta;
      const { output_text: whole } = await stream.finalResponse();
      if (whole !== text) throw new Error('the end of the stream has another text');
      return text;
    },
    tools: async (ask) => {
      const client = open(ask);
      const tools: Tool[] = [{ type: 'function', ...weather, strict: false }];
      const input: ResponseInput = [{ role: 'user', content: ask.text }];
      const { output } = await client.responses.create({ model: ask.model, input, tools });
      const call = output.find((item) => item.type === 'function_call');
      if (call === undefined) throw new Error('no tool was called');
      const result = { type: 'function_call_output', call_id: call.call_id, output: toolResult } as const;
      const again = await client.responses.create({
        ...{ model: ask.model, tools },
        input: [...input, ...(output as ResponseInput), result],
      });
      return { input: JSON.parse(call.arguments), text: again.output_text };
    },
    failure: failureOf,
  };
}
