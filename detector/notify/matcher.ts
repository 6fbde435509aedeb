import type { Incident } from '../../protocol/incident.js';
import { type Globs, globsMatch, globsOf } from '../rules/globs.js';
import { labelsOf } from './labels.js';

/** What incidents are meant: globs by name of a label; all must fit. */
export type MatchConfig = Readonly<Record<string, string | readonly string[]>>;

/** A label that stands for each of an incident's hosts: all of them must fit. */
export const HOST = 'host';

export class Matcher {
  /** As Alertmanager writes a route: `{kind="straggler", job="a-*"}`; empty where everything fits. */
  readonly text: string;
  readonly #globs: readonly (readonly [name: string, globs: Globs])[];

  constructor(config: MatchConfig) {
    const entries = Object.entries(config);
    this.#globs = entries.map(([name, globs]) => [name, globsOf(globs)]);
    const texts = entries.map(([name, globs]) => `${name}=${JSON.stringify([globs].flat().join('|'))}`);
    this.text = texts.length === 0 ? '' : `{${texts.join(', ')}}`;
  }

  /** Does an incident fit, under the severity that it has now? A label that it lacks is as if it were empty. */
  fits(incident: Incident): boolean {
    if (this.#globs.length === 0) return true;
    const labels = labelsOf(incident, incident.severity);
    const { hosts } = incident.subject;
    return this.#globs.every(([name, globs]) =>
      name === HOST && hosts.length > 0
        ? hosts.every((host) => globsMatch(globs, host))
        : globsMatch(globs, labels[name]),
    );
  }
}
