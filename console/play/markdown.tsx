/** Draws the Markdown of an answer as page elements, never as HTML, so that an answer cannot run or load anything. */
import type { Token } from 'markdown-it';
import { type ComponentChildren, h, type JSX } from 'preact';
import { CopyButton } from './copy-button.tsx';
import { linkAddress, parseMarkdown } from './markdown-parser.ts';

export function Markdown({ text }: { readonly text: string }): JSX.Element {
  return <>{draw(parseMarkdown(text))}</>;
}

/** Element that has been opened but not closed yet. */
interface Open {
  readonly token: Token | undefined;
  readonly children: ComponentChildren[];
}

/** Builds elements from a flat list of tokens. An element is an opening token, its children and a closing token. */
function draw(tokens: readonly Token[]): ComponentChildren[] {
  const top: Open = { token: undefined, children: [] };
  const open = [top];
  for (const token of tokens) {
    if (token.nesting === 1) open.push({ token, children: [] });
    else {
      const closed = token.nesting === -1 && open.length > 1 ? open.pop() : undefined;
      open
        .at(-1)
        ?.children.push(closed?.token ? drawElement(closed.token, closed.children) : drawLeaf(token));
    }
  }
  return top.children;
}

function drawLeaf(token: Token): ComponentChildren {
  const { type, content, info } = token;
  if (type === 'inline') return draw(token.children ?? []);
  if (type === 'fence' || type === 'code_block') return <Code language={info} text={content} />;
  if (type === 'code_inline') return <code>{content}</code>;
  if (type === 'softbreak') return '\n';
  if (type === 'hardbreak') return <br />;
  return type === 'hr' ? <hr /> : content;
}

function drawElement(token: Token, children: ComponentChildren): JSX.Element {
  const { type, tag, hidden } = token;
  // Do not draw the paragraphs that the parser puts around the items of a list without blank lines.
  if (hidden) return <>{children}</>;
  if (type === 'link_open') return <Link address={linkAddress(token)}>{children}</Link>;
  // All headings have the same level, because they belong below the answer's own heading.
  if (type === 'heading_open') return <h3>{children}</h3>;
  if (type === 'th_open') return <th scope="col">{children}</th>;
  if (type === 'ordered_list_open') return <ol start={Number(token.attrGet('start') ?? 1)}>{children}</ol>;
  return h(tag, null, children);
}

interface LinkProps {
  readonly address: URL | undefined;
  readonly children: ComponentChildren;
}

function Link({ address, children }: LinkProps): JSX.Element {
  if (address === undefined) return <>{children}</>;
  const { href, host } = address;
  const isShown = host === '' || String(children).includes(host);
  return (
    <a href={href} target="_blank" rel="noopener noreferrer nofollow" title={href}>
      {children}
      {isShown ? null : <span class="muted"> ({host})</span>}
    </a>
  );
}

function Code({ language, text }: { readonly language: string; readonly text: string }): JSX.Element {
  const code = text.replace(/\n$/, '');
  return (
    <div class="code-block">
      <div class="code-head ends muted small">
        <span>{language.trim().split(/\s/)[0]}</span>
        <CopyButton text={code} what="code" />
      </div>
      <pre>
        <code>{code}</code>
      </pre>
    </div>
  );
}
