/** A node whose answers the test writes piece by piece, so that the test alone decides what the model says and when. */
import { createServer, type ServerResponse } from 'node:http';
import { portOf } from './listen.ts';

export interface WrittenAnswer {
  /** Sends a piece of the answer and resolves once it has been sent. */
  write(text: string): Promise<void>;
  end(): void;
}

export interface WrittenNode {
  readonly url: string;
  /** Resolves with the next completion request that the node receives. */
  next(): Promise<WrittenAnswer>;
  close(): void;
}

function answerOn(response: ServerResponse, model: string): WrittenAnswer {
  const send = (choices: readonly object[], more: object = {}): Promise<void> => {
    const event = { id: 'chatcmpl-1', object: 'chat.completion.chunk', created: 1, model, choices, ...more };
    return new Promise((resolve) => {
      response.write(`data: ${JSON.stringify(event)}\n\n`, () => resolve());
    });
  };
  response.writeHead(200, { 'content-type': 'text/event-stream' });
  return {
    write: (content) =>
      send([{ index: 0, delta: { role: 'assistant', content }, logprobs: null, finish_reason: null }]),
    end: () => {
      void send([{ index: 0, delta: {}, finish_reason: 'stop' }]);
      void send([], { usage: { prompt_tokens: 5, completion_tokens: 9, total_tokens: 14 } });
      response.end('data: [DONE]\n\n');
    },
  };
}

/** Starts a node that serves one model as vLLM does. */
export async function startWrittenNode(model: string): Promise<WrittenNode> {
  const asked: WrittenAnswer[] = [];
  const waiting: ((answer: WrittenAnswer) => void)[] = [];
  const server = createServer((request, response) => {
    request.resume();
    if (request.method === 'GET') {
      const models = { object: 'list', data: [{ id: model, object: 'model', max_model_len: 8192 }] };
      response.writeHead(200, { 'content-type': 'application/json' });
      response.end(request.url === '/v1/models' ? JSON.stringify(models) : '{}');
      return;
    }
    request.once('end', () => {
      const answer = answerOn(response, model);
      const take = waiting.shift();
      if (take) take(answer);
      else asked.push(answer);
    });
  });
  const port = await portOf(server);
  return {
    url: `http://127.0.0.1:${port}`,
    next: () => {
      const answer = asked.shift();
      return answer ? Promise.resolve(answer) : new Promise((resolve) => waiting.push(resolve));
    },
    close: () => {
      server.close();
      server.closeAllConnections();
    },
  };
}
