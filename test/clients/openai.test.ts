/**
 * Tests the official OpenAI library in the version that the project depends on, with its default settings, against a whole
 * fleet.
 */
import OpenAI from 'openai';
import { openaiErrors, proveClient, responsesManners, useClientFleet } from './claims.ts';
import { openaiClient } from './openai-driver.ts';
import { proveReader } from './response-streams.ts';
import { responsesClient } from './responses-driver.ts';

useClientFleet();
proveClient('openai', { errors: openaiErrors, backoffMs: 350 }, async () => openaiClient('openai', OpenAI));
proveClient('openai, responses', responsesManners, async () => responsesClient('openai, responses', OpenAI));
proveReader('openai', async () => OpenAI);
