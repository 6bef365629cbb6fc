/**
 * Converts the tools in a request to functions for a node, and converts function names in the response back. A tool in a
 * namespace gets a name made of both names. A custom tool becomes a function whose only argument is a text.
 */
import { createHash } from 'node:crypto';
import type { FunctionTool, ToolChoice } from '../../../schemas/api/openai-messages.ts';
import type { ResponsesFields } from '../../../schemas/api/responses.ts';
import type {
  ChosenTool,
  OwnTool,
  ResponseToolChoice,
  ResponseTools,
} from '../../../schemas/api/responses-items.ts';
import { shapeRefusal } from '../common/validate.ts';

/** The caller's name for a tool that a node knows by another name or in another form. */
export interface CalledAs {
  readonly name: string;
  readonly namespace?: string;
  /** Set if the tool's input is a text instead of JSON arguments. */
  readonly isCustom?: true;
}

/** Tools as the caller knows them, by the names that the node uses. */
export type CallNames = ReadonlyMap<string, CalledAs>;

export interface OfferedTools {
  readonly tools: readonly FunctionTool[] | undefined;
  readonly choice: ToolChoice | undefined;
  readonly names: CallNames;
}

const functionsMax = 1000;
/** Maximum length of a function name that all engines accept. */
const nameCharactersMax = 64;
const hashCharacters = 8;

/** Name of a tool for nodes, made of namespace and name. If it is too long, a hash of the whole name replaces its end. */
export function nodeName(name: string, namespace: string | undefined): string {
  if (namespace === undefined) return name;
  const whole = `${namespace}__${name}`;
  if (whole.length <= nameCharactersMax) return whole;
  const hash = createHash('sha256').update(whole).digest('hex').slice(0, hashCharacters);
  return `${whole.slice(0, nameCharactersMax - hashCharacters - 1)}_${hash}`;
}

/** Arguments in which a node gets the text of a call to a custom tool. */
export function customArguments(input: string): string {
  return JSON.stringify({ input });
}

/** Converts the request's tools and tool choice. Throws `UnsupportedShapeError` if they cannot be sent to a node. */
export function offeredTools({ tools, tool_choice: choice }: ResponsesFields): OfferedTools {
  const offered = new Map<string, FunctionTool>();
  const names = new Map<string, CalledAs>();
  const add = (tool: OwnTool, path: readonly PropertyKey[], namespace?: string, about?: string): void => {
    const name = nodeName(tool.name, namespace);
    if (offered.has(name)) throw shapeRefusal([...path, 'name'], 'is the name of another tool');
    if (offered.size === functionsMax)
      throw shapeRefusal(['tools'], `must have at most ${functionsMax} functions`);
    offered.set(name, functionTool(tool, name, about));
    const isCustom = tool.type === 'custom' ? ({ isCustom: true } as const) : {};
    if (namespace !== undefined) names.set(name, { name: tool.name, namespace, ...isCustom });
    else if (tool.type === 'custom') names.set(name, { name: tool.name, ...isCustom });
  };
  for (const [index, tool] of (tools ?? []).entries()) {
    if (tool.type === 'function' || tool.type === 'custom') add(tool, ['tools', index]);
    else if (tool.type === 'namespace')
      // Put the namespace's description only into its first tool, so that the model reads it once.
      for (const [at, inner] of tool.tools.entries())
        add(inner, ['tools', index, 'tools', at], tool.name, at === 0 ? tool.description : undefined);
  }
  if (offered.size === 0) return { tools: undefined, choice: choiceWithoutTools(choice), names };
  return { ...applyChoice(offered, choice), names };
}

function choiceWithoutTools(choice: ResponseToolChoice | undefined): undefined {
  if (choice === undefined || choice === 'auto' || choice === 'none') return undefined;
  throw shapeRefusal(['tool_choice'], 'needs tools');
}

function applyChoice(
  offered: ReadonlyMap<string, FunctionTool>,
  choice: ResponseToolChoice | undefined,
): Pick<OfferedTools, 'tools' | 'choice'> {
  const tools = [...offered.values()];
  if (choice === undefined || typeof choice === 'string') return { tools, choice };
  if (choice.type !== 'allowed_tools') {
    const { name } = offeredTool(offered, choice, ['tool_choice', 'name']).function;
    return { tools, choice: { type: 'function', function: { name } } };
  }
  const allowed = choice.tools.map((tool, index) =>
    offeredTool(offered, tool, ['tool_choice', 'tools', index, 'name']),
  );
  if (allowed.length === 0) throw shapeRefusal(['tool_choice', 'tools'], 'must not be empty');
  return { tools: tools.filter((tool) => allowed.includes(tool)), choice: choice.mode };
}

function offeredTool(
  offered: ReadonlyMap<string, FunctionTool>,
  { name, namespace }: ChosenTool,
  path: readonly PropertyKey[],
): FunctionTool {
  const tool = offered.get(nodeName(name, namespace));
  if (tool === undefined) throw shapeRefusal(path, 'must be one of the tools');
  return tool;
}

function functionTool(tool: OwnTool, name: string, about: string | undefined): FunctionTool {
  const texts = [about, tool.description, tool.type === 'custom' ? grammarText(tool.format) : undefined];
  const said = texts.filter((text) => text !== undefined && text !== '').join('\n\n');
  const description = said === '' && tool.description === undefined ? {} : { description: said };
  if (tool.type === 'custom') {
    const input = { type: 'string' };
    const only = { properties: { input }, required: ['input'], additionalProperties: false };
    return { type: 'function', function: { name, ...description, parameters: { type: 'object', ...only } } };
  }
  const { parameters, strict } = tool;
  return {
    type: 'function',
    function: {
      name,
      ...description,
      ...(parameters === undefined ? {} : { parameters }),
      ...(strict === undefined ? {} : { strict }),
    },
  };
}

/** Text that asks the model to follow the grammar, because no engine can enforce a grammar within a tool call. */
function grammarText(format: Extract<OwnTool, { type: 'custom' }>['format']): string | undefined {
  if (format?.type !== 'grammar') return undefined;
  return `The input must match this ${format.syntax} grammar:\n${format.definition}`;
}

/** Tools in the form in which a response repeats them. Absent members are null. Web search, which never runs, is left out. */
export function repeatedTools(tools: ResponseTools | undefined): object[] {
  return (tools ?? []).flatMap((tool): object[] => {
    if (tool.type === 'function' || tool.type === 'custom') return [repeatedTool(tool)];
    if (tool.type !== 'namespace') return [];
    const { type, name, description = null } = tool;
    return [{ type, name, description, tools: tool.tools.map(repeatedTool) }];
  });
}

function repeatedTool(tool: OwnTool): object {
  const { type, name, description = null } = tool;
  if (tool.type === 'custom') return { type, name, description, format: tool.format ?? { type: 'text' } };
  return { type, name, description, parameters: tool.parameters ?? null, strict: tool.strict ?? null };
}
