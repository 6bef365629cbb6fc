// Finds headings of all pages by words that begin as those typed; Enter opens the first.
const up = document.currentScript.dataset.up;
const box = document.querySelector('#search');
const found = document.querySelector('#found');
const most = 12;

function matches(text, words) {
  const parts = text.toLowerCase().split(/[^\p{L}\p{N}]+/u);
  return words.every((word) => parts.some((part) => part.startsWith(word)));
}

function show() {
  const words = box.value
    .toLowerCase()
    .split(/[^\p{L}\p{N}]+/u)
    .filter(Boolean);
  const hits =
    words.length === 0 ? [] : window.searchIndex.filter(([page, text]) => matches(`${page} ${text}`, words));
  // A heading that has all words itself comes before one whose page has them.
  hits.sort(([, a], [, b]) => Number(matches(b, words)) - Number(matches(a, words)));
  found.replaceChildren(
    ...hits.slice(0, most).map(([page, text, address]) => {
      const link = document.createElement('a');
      link.href = `${up}/${address}`;
      link.textContent = page === text ? page : `${page} › ${text}`;
      const item = document.createElement('li');
      item.append(link);
      return item;
    }),
  );
  if (words.length > 0 && hits.length === 0)
    found.append(Object.assign(document.createElement('li'), { textContent: 'Nothing found' }));
}

box.addEventListener('input', show);
box.addEventListener('keydown', ({ key }) => {
  if (key === 'Escape') {
    box.value = '';
    show();
  }
  if (key === 'Enter') found.querySelector('a')?.click();
});
// On a narrow screen the list of pages stands closed above the text.
if (matchMedia('(max-width: 60rem)').matches) document.querySelector('details.pages').open = false;
