/** Formats the next request as code that calls the API. */
import type { TurnTarget } from './conversation.ts';

export const languages = ['curl', 'Python', 'TypeScript'] as const;
export type Language = (typeof languages)[number];

export function renderCode(language: Language, { stack }: TurnTarget, body: Record<string, unknown>): string {
  const json = JSON.stringify(body, null, 2);
  const base = stack === undefined ? 'https://BASE_URL/v1' : `https://${stack.id}.STACK_DOMAIN/v1`;
  const isAnthropic = stack?.surface === 'anthropic';
  if (language === 'curl') {
    const path = isAnthropic ? 'messages' : 'chat/completions';
    return `curl ${base}/${path} \\\n  -H "Authorization: Bearer $API_KEY" \\\n  -H "Content-Type: application/json" \\\n  -d '${json.replaceAll("'", "'\\''")}'`;
  }
  const name = isAnthropic ? 'Anthropic' : 'OpenAI';
  const method = isAnthropic ? 'messages' : 'chat.completions';
  const root = isAnthropic ? base.replace(/\/v1$/, '') : base;
  if (language === 'TypeScript')
    return `import ${name} from '${isAnthropic ? '@anthropic-ai/sdk' : 'openai'}';\n\nconst client = new ${name}({ baseURL: '${root}', apiKey: process.env.API_KEY });\nconst stream = await client.${method}.create(${json});\nfor await (const event of stream) console.log(event);`;
  return `import json, os\nfrom ${name.toLowerCase()} import ${name}\n\nclient = ${name}(base_url="${root}", api_key=os.environ["API_KEY"])\nbody = json.loads(${pythonText(json)})\nfor event in client.${method}.create(**body):\n    print(event)`;
}

/** Formats JSON as a Python literal. Any JSON string is also a valid string in Python. */
function pythonText(json: string): string {
  return JSON.stringify(json);
}
