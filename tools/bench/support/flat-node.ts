/**
 * Inference node that uses almost no CPU time, so that it can share a processor with the load client. `node flat-node.js`
 * prints its port.
 */
import { type AddressInfo, createServer } from 'node:net';

const formatAnswer = (body: object): string => {
  const text = JSON.stringify(body);
  return `HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: ${text.length}\r\n\r\n${text}`;
};
const models = formatAnswer({
  object: 'list',
  data: [{ id: 'echo-small', object: 'model', created: 0, owned_by: 'bench', max_model_len: 131_072 }],
});
const content = 'The quick brown fox jumps over the lazy dog and sits down. '.repeat(4);
const chat = formatAnswer({
  id: 'chatcmpl-9f8a7b6c5d4e3f2a',
  object: 'chat.completion',
  created: 0,
  model: 'echo-small',
  choices: [{ index: 0, message: { role: 'assistant', content }, logprobs: null, finish_reason: 'stop' }],
  usage: { prompt_tokens: 187, completion_tokens: 48, total_tokens: 235 },
});

const server = createServer((socket) => {
  let text = '';
  socket.setEncoding('latin1');
  socket.setNoDelay(true);
  socket.on('error', () => socket.destroy());
  socket.on('data', (chunk: string) => {
    text += chunk;
    for (let end = text.indexOf('\r\n\r\n'); end !== -1; end = text.indexOf('\r\n\r\n')) {
      const length = Number(/\r\ncontent-length: *(\d+)/i.exec(text.slice(0, end))?.[1] ?? 0);
      if (text.length < end + 4 + length) return;
      const isGet = text.startsWith('GET ');
      text = text.slice(end + 4 + length);
      socket.write(isGet ? models : chat);
    }
  });
});
server.listen(0, '127.0.0.1', () => process.stdout.write(`${(server.address() as AddressInfo).port}\n`));
