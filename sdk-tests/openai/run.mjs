// Runs the cases with the official client for Node. Settings: see ../harness/harness.py.

import './cases_chat.mjs';
import './cases_stream.mjs';
import './cases_responses.mjs';
import './cases_research.mjs';
import './cases_completions.mjs';
import './cases_embeddings.mjs';
import './cases_decisions.mjs';
import './cases_videos.mjs';
import './cases_audio.mjs';
import './cases_realtime.mjs';
import './cases_files.mjs';
import './cases_batches.mjs';
import './cases_errors.mjs';
import './cases_connections.mjs';
import { main, versionOf } from '../harness/harness.mjs';

await main('openai-node', versionOf('openai'));
