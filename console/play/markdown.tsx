/**
 * A small part of Markdown, drawn as text nodes: paragraphs, lists, headings, code, bold and italics. Links, images and
 * HTML stay the text that they are, so an answer can neither run nor load nor lead anywhere.
 */
import type { ComponentChildren, JSX } from 'preact';

export function Markdown({ text }: { readonly text: string }): JSX.Element {
  const parts = text.split(/^```.*$/m);
  return (
    <>
      {parts.map((part, at) =>
        at % 2 === 1 ? <Code key={at} text={part} /> : <Blocks key={at} text={part} />,
      )}
    </>
  );
}

function Code({ text }: { readonly text: string }): JSX.Element {
  return (
    <pre>
      <code>{text.replace(/^\n|\n$/g, '')}</code>
    </pre>
  );
}

function Blocks({ text }: { readonly text: string }): JSX.Element {
  const blocks = text.split(/\n{2,}/).filter((block) => block.trim() !== '');
  return <>{blocks.map((block, at) => drawBlock(block.trim(), at))}</>;
}

const item = /^(?:[-*+]|\d+[.)])\s+/;

function drawBlock(block: string, at: number): JSX.Element {
  const lines = block.split('\n');
  if (lines.every((line) => item.test(line.trim())))
    return (
      <ul key={at}>
        {lines.map((line, index) => (
          <li key={index}>{inline(line.trim().replace(item, ''))}</li>
        ))}
      </ul>
    );
  const heading = /^#{1,6}\s+(.*)$/.exec(block);
  return <p key={at}>{heading ? <strong>{inline(heading[1] ?? '')}</strong> : inline(block)}</p>;
}

const marks = /(`[^`\n]+`|\*\*[^*\n]+\*\*|\*[^*\s][^*\n]*\*)/;

function inline(text: string): ComponentChildren {
  return text.split(marks).map((part, at) => {
    if (at % 2 === 0) return part;
    if (part.startsWith('`')) return <code key={at}>{part.slice(1, -1)}</code>;
    if (part.startsWith('**')) return <strong key={at}>{part.slice(2, -2)}</strong>;
    return <em key={at}>{part.slice(1, -1)}</em>;
  });
}
