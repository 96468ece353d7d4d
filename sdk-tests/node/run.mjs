// Runs the cases with the official client for Node. Settings: see harness.mjs.

import './cases_chat.mjs';
import './cases_stream.mjs';
import './cases_embeddings.mjs';
import './cases_errors.mjs';
import './cases_connections.mjs';
import { run } from './harness.mjs';

const failures = await run(process.argv[2] ?? '');
// Connections that a case left open must not keep the process.
process.exit(failures > 0 ? 1 : 0);
