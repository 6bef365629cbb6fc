import { controlLogContract } from '../contract/control-log.ts';
import { MemoryLog, MemoryTopic } from './memory-log.ts';

controlLogContract('the memory log', async () => {
  const topic = new MemoryTopic();
  return { open: async () => new MemoryLog(topic), dispose: async () => undefined };
});
