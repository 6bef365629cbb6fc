/** Generates stack ids, the DNS labels `stk-<word>-<word>-<suffix>`, 6.9 billion in all. The log accepts each id only once. */
import { type RandomSource, randomText } from '../../shared/ids/api-key.ts';

const qualities = words(`
  amber azure bold brave brisk bright calm clear clever cobalt copper coral cosmic crisp dapper deep eager early
  fair fleet fresh gentle gilded glad golden grand green happy hazel humble ivory jade jolly keen kind lively
  lucid lunar mellow merry mild misty noble olive opal pearl plain proud quick quiet rapid ruby rustic sandy
  scarlet silent silver solar steady sunny swift tidy violet warm`);
const creatures = words(`
  alpaca badger beaver bison bobcat buffalo camel canary caribou cobra condor cougar coyote crane dingo dolphin
  eagle egret falcon ferret finch fox gazelle gecko gibbon goose heron hornet ibex iguana jackal jaguar kestrel
  koala lemur leopard lizard llama lynx magpie marten meerkat mole moose narwhal newt ocelot orca osprey otter
  panda parrot pelican penguin puffin python quail rabbit raven seal sparrow tapir toucan walrus`);
const suffixAlphabet = '0123456789abcdefghijklmnopqrstuvwxyz';
const suffixLength = 4;

function words(text: string): readonly string[] {
  return text.trim().split(/\s+/);
}

export function mintStackId(random: RandomSource): string {
  const [first = 0, second = 0] = random(2);
  // Both lists have 64 words, and 64 divides 256, so all words are equally likely.
  const quality = qualities[first % qualities.length];
  const creature = creatures[second % creatures.length];
  return `stk-${quality}-${creature}-${randomText(random, suffixAlphabet, suffixLength)}`;
}
