/** Entry point of the playground, a single page for visitors and for holders of an API key. */
import { render } from 'preact';
import '../styles/base.css';
import '../styles/controls.css';
import './play.css';
import { App } from './app.tsx';

const root = document.getElementById('app');
if (root) render(<App />, root);
