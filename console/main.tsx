/**
 * Entry point of the console. It determines who is signed in and then draws the page that the URL names. The console shows
 * and changes only what the control plane allows. From the rest of the project, it imports only `schemas/`.
 */
import './styles/base.css';
import './styles/controls.css';
import './styles/parts.css';
import './styles/frame.css';
import './styles/pages.css';
import './styles/explain.css';
import './styles/plots.css';
import './styles/requests.css';
import './styles/narrow.css';
import { begin } from './app.tsx';
import { startRouter } from './lib/router.ts';

startRouter();
const root = document.getElementById('app');
if (root) begin(root);
