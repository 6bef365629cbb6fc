/** Icons as inline drawings, because the fonts on many machines lack these symbols. */

const paths = {
  fleet: 'M3 3h6v6H3zM11 3h6v6h-6zM3 11h6v6H3zM11 11h6v6h-6z',
  gateways: 'M3 7h12m-3-3 3 3-3 3M17 13H5m3-3-3 3 3 3',
  nodes: 'M3 4h14v5H3zM3 11h14v5H3zM6 6.5h.01M6 13.5h.01',
  stacks: 'm10 3 7 3.5-7 3.5-7-3.5zM3 10l7 3.5 7-3.5M3 13.5 10 17l7-3.5',
  organisations: 'M4 17V4h7v13M11 8h5v9M2.5 17h15M6.5 7h2M6.5 10h2M6.5 13h2M13.5 11h.01M13.5 14h.01',
  models: 'M10 2.5 17 6v8l-7 3.5L3 14V6zM3 6l7 3.5L17 6M10 9.5v8',
  tiers: 'M4 3h9l3 3v11H4zM7 8h6M7 11h6M7 14h4',
  requests: 'M3 5h9m-3-3 3 3-3 3M17 10H8m3-3-3 3 3 3M3 15h9m-3-3 3 3-3 3',
  keys: 'M12.5 11.5a4 4 0 1 0-3.6-2.3L3 15.1V17h3v-2h2v-2h1.5l1.2-1.2M13.5 6.5h.01',
  usage: 'M3 17V3M3 17h14M6.5 14v-4M10 14V6M13.5 14V9',
  events: 'M6.5 4.5H17M6.5 10H17M6.5 15.5H17M3 4.5h.01M3 10h.01M3 15.5h.01',
  changes: 'M3 15h4v-4h4V7h4V3M14 12h4m-2-2v4',
  limits: 'M3 14a7 7 0 1 1 14 0M10 14l3.5-4.5M3 17h14',
  explain: 'M10 17a7 7 0 1 0 0-14 7 7 0 0 0 0 14M7.8 8a2.2 2.2 0 1 1 3.2 2c-.7.4-1 .8-1 1.5M10 13.8h.01',
  doctor:
    'M10 17s-6.5-4-6.5-8.6A3.5 3.5 0 0 1 10 6.6a3.5 3.5 0 0 1 6.5 1.8C16.5 13 10 17 10 17M6 11h2l1.2-2 1.6 3.4L12 11h2',
  copy: 'M7 7h10v10H7zM13 7V3H3v10h4',
  terminal: 'M3 4h14v12H3zM6 8l2 2-2 2M10 12.5h4',
} as const;

export type IconName = keyof typeof paths;

export function Icon({ name }: { readonly name: IconName }) {
  return (
    <svg class="drawing" viewBox="0 0 20 20" width="18" height="18" aria-hidden="true">
      <path d={paths[name]} />
    </svg>
  );
}
