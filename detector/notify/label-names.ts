import { PicketError } from '../../protocol/errors.js';
import { nearest } from '../../protocol/mistyped-names.js';
import { LABEL_NAMES } from './labels.js';
import { HOST } from './matcher.js';
import { type RouteConfig, UNGROUPED } from './route.js';

/** A label that no incident has. */
export interface UnknownLabel {
  readonly name: string;
  /** The label that it resembles: then it is a slip of the pen, and otherwise it may be one of rules to come. */
  readonly meant: string | undefined;
  readonly problem: string;
  readonly remedy: string;
}

/** Those of the labels to match by that no incident has under rules that add `ofRules`. */
export const unknownInMatch = (match: object, ofRules: ReadonlySet<string>): UnknownLabel[] =>
  unknown(Object.keys(match), [HOST, ...LABEL_NAMES, ...ofRules]);

function unknown(names: readonly string[], known: readonly string[]): UnknownLabel[] {
  return names
    .filter((name) => !known.includes(name))
    .map((name) => {
      const meant = nearest(name, known);
      const remedy = meant === undefined ? `known are ${known.join(', ')}` : `did you mean "${meant}"?`;
      return { name, meant, problem: `no incident has a label "${name}"`, remedy };
    });
}

/** The labels in routes that no incident has, as errors of the configuration; those of rules to come are told by `isSlip`. */
export function unknownInRoutes(
  routes: readonly RouteConfig[],
  ofRules: ReadonlySet<string>,
): { readonly error: PicketError; readonly isSlip: boolean }[] {
  return routes.flatMap(({ match, group_by }, i) => {
    const grouping = group_by.filter((name) => name !== UNGROUPED);
    const found = [
      ...unknownInMatch(match, ofRules).map((label) => ({ ...label, field: `match.${label.name}` })),
      ...unknown(grouping, [...LABEL_NAMES, ...ofRules]).map((label) => ({
        ...label,
        field: `group_by.${group_by.indexOf(label.name)}`,
      })),
    ];
    return found.map(({ field, problem, remedy, meant }) => ({
      error: new PicketError('bad_config', problem, { field: `routes.${i}.${field}`, remedy }),
      isSlip: meant !== undefined,
    }));
  });
}
