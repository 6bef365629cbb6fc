/** The official OpenAI library of the version that the project itself has, with its defaults, against a whole fleet. */
import OpenAI from 'openai';
import { openaiErrors, proveClient, useClientFleet } from './claims.ts';
import { openaiClient } from './openai-driver.ts';

useClientFleet();
proveClient('openai', { errors: openaiErrors, backoffMs: 350 }, async () => openaiClient('openai', OpenAI));
