// Two inference servers in one process. `plain` answers properly, and `worst` gives the answers that are hardest to read; the
// prompt selects which one. Prints the addresses of both servers once they listen.
import { createServer } from 'node:http';

const MiB = 1024 * 1024;

const answerOf = (content) =>
  JSON.stringify({
    choices: [{ index: 0, message: { role: 'assistant', content }, finish_reason: 'stop' }],
    usage: { prompt_tokens: 3, completion_tokens: 3 },
  });

const names = (before, after, bytes) => {
  const units = [];
  for (let n = 0, left = bytes; left > 0; n++)
    left -= units[units.push(`"k${n.toString(36)}":0`) - 1].length + 1;
  return before + units.join() + after;
};
const chunked = (text) => `${[...text].map((byte) => `1\r\n${byte}\r\n`).join('')}0\r\n\r\n`;
const vector = (numbers) => `[${Array.from({ length: numbers }, (_, at) => (at / 977).toFixed(9)).join()}]`;
const vectors = (inputs, numbers) => {
  const one = vector(numbers);
  const data = Array.from({ length: inputs }, (_, index) => `{"index":${index},"embedding":${one}}`);
  return `{"data":[${data.join()}],"usage":{"prompt_tokens":1}}`;
};
const event = (content) => `data: {"choices":[{"index":0,"delta":{"content":"${content}"}}]}\n\n`;
const eightTimes = (data) => `data: ${data}\n\n`.repeat(8);

const rawAnswer = (headLines, trailerLines) => {
  const body = answerOf('fine');
  return `HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n${headLines}\r\n${body.length.toString(16)}\r\n${body}\r\n0\r\n${trailerLines}\r\n`;
};
const shortLines = 'a:b\r\n'.repeat(200_000);
const foldedLine = `a:b${'\r\n c'.repeat(200_000)}\r\n`;

/** Answers are created at the start, so that creating them later does not delay probes. */
const answers = {
  text: answerOf('a'.repeat(30 * MiB)),
  escapes: answerOf('"\\'.repeat(7 * MiB)),
  names: names('{', '}', 31 * MiB),
  objects: `[${'{},'.repeat(10 * MiB)}{}]`,
  error: names('{"error":{', '}}', 60 * 1024),
  chunks: chunked(answerOf('a'.repeat(MiB))),
  'vectors-1024': vectors(2048, 1024),
  'vectors-64': vectors(2048, 64),
  'event-names': eightTimes(names('{', '}', MiB - 100)),
  'event-objects': eightTimes(`{"choices":[${'{},'.repeat(300_000)}{}]}`),
  'event-text': event('a'.repeat(MiB - 200)).repeat(8),
  events: event('a').repeat(100_000),
};
const rawAnswers = {
  'trailer-lines': rawAnswer('', shortLines),
  'trailer-folds': rawAnswer('', foldedLine),
  'trailer-names': rawAnswer('', 'a:\r\n'.repeat(200_000)),
  'trailer-fits': rawAnswer('', 'a:\r\n'.repeat(3_500)),
  'head-lines': rawAnswer(shortLines, ''),
  'head-names': rawAnswer('a:\r\n'.repeat(200_000), ''),
  'head-fits': rawAnswer('a:\r\n'.repeat(3_500), ''),
  'head-folds': rawAnswer(foldedLine, ''),
};
const tokens = JSON.stringify({ count: 9, tokens: Array.from({ length: 500_000 }, () => 12_345) });

function answer(model, url, head, response) {
  response.setHeader('content-type', 'application/json');
  if (url === '/v1/models') response.end(JSON.stringify({ data: [{ id: model }] }));
  else if (url === '/health') response.end('{}');
  else if (url === '/tokenize') response.end(tokens);
  else if (!url.startsWith('/v1/chat') && !url.startsWith('/v1/embeddings'))
    response.writeHead(404).end('{}');
  else if (model === 'plain') response.end(answerOf('fine'));
  else worst(/answer:([\w-]+)/.exec(head)?.[1], response);
}

function worst(name, response) {
  if (name in rawAnswers) {
    response.socket.end(rawAnswers[name]);
    return;
  }
  const text = answers[name];
  if (name.startsWith('event')) response.setHeader('content-type', 'text/event-stream');
  if (name === 'error') response.statusCode = 400;
  if (name !== 'chunks') {
    response.end(text);
    return;
  }
  // Writes directly to the socket, because the response object would join the bytes. The connection is not reused.
  response.setHeader('connection', 'close');
  response.setHeader('transfer-encoding', 'chunked');
  response.flushHeaders();
  response.socket.end(text);
}

const urls = {};
for (const model of ['plain', 'worst']) {
  const server = createServer((request, response) => {
    let head = '';
    request.on('data', (chunk) => {
      if (head.length < 1000) head += chunk.toString('latin1', 0, 1000);
    });
    request.on('end', () => answer(model, request.url, head, response));
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  urls[model] = `http://127.0.0.1:${server.address().port}`;
}
process.stdout.write(`${JSON.stringify(urls)}\n`);
// Makes this process end together with its parent process.
process.stdin.resume();
process.stdin.on('end', () => process.exit(0));
