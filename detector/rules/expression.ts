import { type ASTNode, Environment, EvaluationError, type ParseResult } from '@marcbachmann/cel-js';
import { serialize } from '@marcbachmann/cel-js/serialize';
import { NoValue, PhaseWindow, WindowStats } from './phase-window.js';

/** What an expression sees. */
export interface ExpressionFacts {
  /** The steps of the window, of the whole job or of one rank. */
  readonly now: PhaseWindow;
  /** The steps before the window. */
  readonly before: PhaseWindow;
  /** The other ranks in the window: the median of them; of a rule per job the same as `now`. */
  readonly peers: PhaseWindow;
  readonly job: string;
  /** '' and -1 in a rule per job. */
  readonly host: string;
  readonly rank: bigint;
  readonly stage: bigint;
  readonly ranks: bigint;
}

/** An expression ready to run. Throws `NoValue` where a fact it needs is unknown, or it divides by zero. */
export interface Compiled<T> {
  (facts: ExpressionFacts): T;
  /** It looks at the steps before the window, and has no value while there are none. */
  readonly needsPast: boolean;
}

export interface ExpressionFault {
  /** Character of the expression. */
  readonly at: number;
  readonly message: string;
  readonly remedy: string;
}

const STATS_FIELDS = ['mean_ms', 'median_ms', 'p90_ms', 'min_ms', 'max_ms', 'share'] as const;
const WINDOW_FIELDS = ['step', 'compute', 'memory', 'data', 'host', 'gap'] as const;
const typed = (names: readonly string[], type: string) => Object.fromEntries(names.map((name) => [name, type]));
const pure = <F>(handler: F) => ({ handler, async: false as const });

const ENVIRONMENT = new Environment({ limits: { maxAstNodes: 500, maxDepth: 50, maxCallArguments: 4 } })
  .registerType('Stats', { ctor: WindowStats, fields: { ...typed(STATS_FIELDS, 'double'), steps: 'int' } })
  .registerType('Window', {
    ctor: PhaseWindow,
    fields: { ...typed(WINDOW_FIELDS, 'Stats'), tokens_per_second: 'double' },
  })
  .registerFunction(
    'Window.phase(string): Stats',
    pure((window: PhaseWindow, name: string) => window.phase(name)),
  )
  .registerFunction('abs(double): double', pure(Math.abs))
  .registerFunction('min(double, double): double', pure(Math.min))
  .registerFunction('max(double, double): double', pure(Math.max))
  .registerFunction('ratio(double, double): double', pure(ratio))
  .registerVariable('now', 'Window')
  .registerVariable('before', 'Window')
  .registerVariable('peers', 'Window')
  .registerVariable('job', 'string')
  .registerVariable('host', 'string')
  .registerVariable('rank', 'int')
  .registerVariable('stage', 'int')
  .registerVariable('ranks', 'int');

/** Not `matches`: a regular expression can stall; no conversions: texts such as "NaN" are no numbers here. */
const FUNCTIONS: ReadonlySet<string> = new Set(['phase', 'abs', 'min', 'max', 'contains', 'startsWith', 'endsWith']);

/** Not a number or infinite must never make a comparison true, nor its negation. */
function ratio(a: number, b: number): number {
  const value = a / b;
  if (!Number.isFinite(value)) throw new NoValue(`divides ${a} by ${b}`);
  return value;
}

export function compileExpression(text: string, type: 'bool'): Compiled<boolean> | ExpressionFault;
export function compileExpression(text: string, type: 'double'): Compiled<number> | ExpressionFault;
/** Compiles a CEL expression of the given type, or says what is wrong with it. No code is made of it. */
export function compileExpression(text: string, type: 'bool' | 'double'): Compiled<unknown> | ExpressionFault {
  let parsed: ParseResult;
  try {
    parsed = ENVIRONMENT.parse(text);
  } catch (error) {
    return faultOf(error, 'correct the CEL expression');
  }
  const refused = nodesOf(parsed.ast).find((node) => isCall(node) && !FUNCTIONS.has(String(node.args[0])));
  if (refused)
    return {
      at: refused.start,
      message: `${String((refused.args as unknown[])[0])}() cannot be used`,
      remedy: `use one of ${[...FUNCTIONS].join(', ')}`,
    };
  const checked = parsed.check();
  if (!checked.valid) return faultOf(checked.error, remedyFor(String(checked.error?.message)));
  if (checked.type !== type)
    return {
      at: 0,
      message: `gives ${checked.type}, not ${type}`,
      remedy: type === 'bool' ? 'compare it, as in "… > 1.5"' : 'write a number such as 1.0',
    };
  if (!nodesOf(parsed.ast).some(({ op }) => op === 'id'))
    return {
      at: 0,
      message: 'looks at nothing and so never changes',
      remedy: 'compare a statistic, as in now.step.median_ms > 100.0',
    };
  const needsPast = nodesOf(parsed.ast).some((node) => node.op === 'id' && node.args === 'before');
  return Object.assign(guarded(ENVIRONMENT.parse(serialize(withRatios(parsed.ast)))), { needsPast });
}

function guarded(evaluate: ParseResult): (facts: ExpressionFacts) => unknown {
  return (facts) => {
    // Errors are answers here, and their stacks would cost more than all the rest.
    const limit = Error.stackTraceLimit;
    Error.stackTraceLimit = 0;
    try {
      const value: unknown = evaluate(facts);
      if (typeof value === 'number' && !Number.isFinite(value)) throw new NoValue('is not a finite number');
      return value;
    } catch (error) {
      if (error instanceof NoValue) throw error;
      if (error instanceof EvaluationError)
        throw error.cause instanceof NoValue ? error.cause : new NoValue(error.summary);
      throw error;
    } finally {
      Error.stackTraceLimit = limit;
    }
  };
}

/** The same expression with `a / b` as `ratio(a, b)`; numbers stay as they are written. */
function withRatios(node: ASTNode): ASTNode {
  const made = (op: string, args: unknown): ASTNode => ({ op, args }) as unknown as ASTNode;
  const each = (value: unknown): unknown => {
    if (Array.isArray(value)) return value.map(each);
    return isNode(value) ? withRatios(value) : value;
  };
  if (node.op === 'value' && typeof node.args === 'number') return made('id', node.input.slice(node.start, node.end));
  const args = each(node.args);
  return node.op === '/' && typeOf(node) === 'double' ? made('call', ['ratio', args]) : made(node.op, args);
}

const typeOf = (node: ASTNode): string | undefined => (node as { checkedType?: { name?: string } }).checkedType?.name;

const isNode = (value: unknown): value is ASTNode => typeof value === 'object' && value !== null && 'op' in value;

const isCall = (node: ASTNode): node is Extract<ASTNode, { op: 'call' | 'rcall' }> =>
  node.op === 'call' || node.op === 'rcall';

/** All nodes, the root first. */
function nodesOf(node: ASTNode): ASTNode[] {
  const below = (value: unknown): ASTNode[] => {
    if (Array.isArray(value)) return value.flatMap(below);
    return isNode(value) ? nodesOf(value) : [];
  };
  return [node, ...below(node.args)];
}

function faultOf(error: unknown, remedy: string): ExpressionFault {
  if (error instanceof RangeError) return { at: 0, message: 'is nested too deeply', remedy: 'write it flat' };
  const { summary, message, range } = error as { summary?: string; message: string; range?: { start: number } };
  return { at: range?.start ?? 0, message: summary ?? message, remedy };
}

function remedyFor(message: string): string {
  if (message.startsWith('Unknown variable')) return 'use now, before, peers, job, host, rank, stage or ranks';
  if (message.startsWith('No such key'))
    return `use ${[...WINDOW_FIELDS, 'tokens_per_second'].join(', ')} or phase("…") of a window, ${STATS_FIELDS.join(', ')} or steps of a statistic`;
  if (/double [*+/<>=-]+ int|int [*+/-]+ double/.test(message)) return 'write whole numbers as 2.0 beside statistics';
  return 'see the table of fields in docs/rules.md';
}
