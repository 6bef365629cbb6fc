/**
 * Markdown of an answer as elements of the page, never as HTML: what it says can neither run nor load anything. Links lead to the
 * web alone, and name the host that they lead to.
 */
import { Component, type ComponentChildren, type JSX } from 'preact';
import { useRef } from 'preact/hooks';
import { CopyButton } from './copy-button.tsx';
import { type Block, blockOf, type Split, splitBlocks, splitOn } from './markdown-blocks.ts';
import { type Inline, inlineOf } from './markdown-inline.ts';

/** Lists in lists, and quotes in quotes; what is deeper is shown as it came. */
const depthMax = 6;

export function Markdown({ text }: { readonly text: string }): JSX.Element {
  const split = useRef<Split>({ text: '', blocks: [] });
  split.current = splitOn(split.current, text);
  return <Blocks sources={split.current.blocks} depth={0} />;
}

interface BlocksProps {
  readonly sources: readonly string[];
  readonly depth: number;
}

function Blocks({ sources, depth }: BlocksProps): JSX.Element {
  return (
    <>
      {sources.map((source, at) => (
        <Drawn key={at} source={source} depth={depth} />
      ))}
    </>
  );
}

/** Drawn again only where its source has changed: of a growing answer that is the end. */
class Drawn extends Component<{ readonly source: string; readonly depth: number }> {
  override shouldComponentUpdate({ source }: { readonly source: string }): boolean {
    return source !== this.props.source;
  }

  override render(): JSX.Element {
    const { source, depth } = this.props;
    return drawn(blockOf(source), depth);
  }
}

function drawn(block: Block, depth: number): JSX.Element {
  if (block.kind === 'code') return <Code {...block} />;
  if (block.kind === 'rule') return <hr />;
  if (block.kind === 'table') return <Table rows={block.rows} />;
  // Below the heading of the answer; how deep the answer has it is for eyes alone.
  if (block.kind === 'heading') return <h3 class={`level-${block.level}`}>{inline(block.text)}</h3>;
  if (block.kind === 'list') return <List {...block} depth={depth} />;
  if (block.kind === 'quote' && depth < depthMax)
    return (
      <blockquote>
        <Blocks sources={splitBlocks(block.text)} depth={depth + 1} />
      </blockquote>
    );
  return <p>{inline(block.text)}</p>;
}

function List({
  first,
  items,
  depth,
}: Extract<Block, { kind: 'list' }> & { readonly depth: number }): JSX.Element {
  const entries = items.map((text, at) => (
    <li key={at}>
      <Item text={text} depth={depth} />
    </li>
  ));
  return first === undefined ? <ul>{entries}</ul> : <ol start={first}>{entries}</ol>;
}

/** A text alone is no paragraph, so that a list of lines is as dense as it was written. */
function Item({ text, depth }: { readonly text: string; readonly depth: number }): JSX.Element {
  if (depth >= depthMax) return <>{text}</>;
  const [first = '', ...others] = splitBlocks(text);
  const block = blockOf(first);
  return (
    <>
      {block.kind === 'paragraph' ? inline(block.text) : drawn(block, depth + 1)}
      <Blocks sources={others} depth={depth + 1} />
    </>
  );
}

function Code({ language, text }: Extract<Block, { kind: 'code' }>): JSX.Element {
  return (
    <div class="code-block">
      <div class="code-head">
        <span>{language}</span>
        <CopyButton text={text} what="code" />
      </div>
      <pre>
        <code>{text}</code>
      </pre>
    </div>
  );
}

function Table({
  rows: [head = [], ...rows],
}: {
  readonly rows: readonly (readonly string[])[];
}): JSX.Element {
  return (
    <table>
      <thead>
        <tr>
          {head.map((cell, at) => (
            <th key={at} scope="col">
              {inline(cell)}
            </th>
          ))}
        </tr>
      </thead>
      <tbody>
        {rows.map((cells, row) => (
          <tr key={row}>
            {head.map((_, at) => (
              <td key={at}>{inline(cells[at] ?? '')}</td>
            ))}
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function inline(text: string, depth = 0): ComponentChildren {
  if (depth >= depthMax) return text;
  return inlineOf(text).map((part, at) => <InlinePart key={at} part={part} depth={depth} />);
}

function InlinePart({ part, depth }: { readonly part: Inline; readonly depth: number }): JSX.Element {
  if (part.kind === 'text') return <>{part.text}</>;
  if (part.kind === 'code') return <code>{part.text}</code>;
  if (part.kind === 'strong') return <strong>{inline(part.text, depth + 1)}</strong>;
  if (part.kind === 'em') return <em>{inline(part.text, depth + 1)}</em>;
  const { host } = new URL(part.url);
  return (
    <a href={part.url} target="_blank" rel="noopener noreferrer nofollow" title={part.url}>
      {part.text}
      {part.text.includes(host) ? null : <span class="host"> ({host})</span>}
    </a>
  );
}
