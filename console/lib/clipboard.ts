/** Copies text to the clipboard. Also works over plain HTTP, where browsers do not offer the clipboard API. */
export async function copyText(text: string): Promise<void> {
  if (navigator.clipboard !== undefined && window.isSecureContext) {
    await navigator.clipboard.writeText(text);
    return;
  }
  const area = document.createElement('textarea');
  area.value = text;
  (document.querySelector('dialog[open]') ?? document.body).append(area);
  area.select();
  document.execCommand('copy');
  area.remove();
}
