/** Facts that name what an incident is about; they do not change while it lasts. */
export const IDENTITY_FIELDS = [
  'job',
  'run',
  'ranks',
  'hosts',
  'stage',
  'group',
  'link',
  'nic',
  'requests',
  'phase',
  'instance',
  'gpu',
  'graph',
  'source',
  'kind',
] as const;
/** Of these there can be too many for a label. */
export const UNBOUNDED_FIELDS: ReadonlySet<string> = new Set([
  'run',
  'ranks',
  'hosts',
  'requests',
  'link',
  'nic',
  'gpu',
  'group',
]);
/** What is measured, and so changes from step to step. */
const MEASURED_FIELDS = [
  'summary',
  'severity',
  'cause',
  'onset_step',
  'detected_step',
  'last_step',
  'confidence',
  'cost.ms_per_step',
  'cost.step_percent',
  'cost.gpu_seconds',
] as const;

/** A text with `{{ field }}` in it. */
export interface Template {
  readonly texts: readonly string[];
  /** Between the texts; each one shorter than they are. */
  readonly fields: readonly string[];
}

export type TemplateFault = { readonly at: number; readonly message: string; readonly remedy: string };

/** Splits a template, or says what is wrong with it. `$labels.` before a name and `$value` are understood as in Prometheus. */
export function parseTemplate(text: string): Template | TemplateFault {
  const texts: string[] = [];
  const fields: string[] = [];
  let end = 0;
  for (const match of text.matchAll(/\{\{(.*?)\}\}/gs)) {
    const name = (match[1] as string)
      .trim()
      .replace(/^\$labels\./, '')
      .replace(/^\$value$/, 'cost.step_percent');
    if (!isField(name))
      return {
        at: match.index,
        message: `"{{ ${name} }}" is no field of an incident`,
        remedy: `use one of ${FIELD_LIST}`,
      };
    texts.push(text.slice(end, match.index));
    fields.push(name);
    end = match.index + match[0].length;
  }
  const rest = text.slice(end);
  const open = rest.search(/\{\{|\}\}/);
  if (open >= 0) return { at: end + open, message: 'braces do not match', remedy: 'write {{ field }}' };
  return { texts: [...texts, rest], fields };
}

const FIELD_LIST = [...IDENTITY_FIELDS, ...MEASURED_FIELDS, 'evidence.NAME'].join(', ');

const isField = (name: string): boolean =>
  ([...IDENTITY_FIELDS, ...MEASURED_FIELDS] as string[]).includes(name) || /^evidence\.\w+$/.test(name);

export const isIdentity = (field: string): boolean => (IDENTITY_FIELDS as readonly string[]).includes(field);

/** Fills in the fields; what a fact has none of is left empty. */
export function renderTemplate({ texts, fields }: Template, facts: FactsOf): string {
  return texts.map((text, i) => (i < fields.length ? text + textOf(facts(fields[i] as string)) : text)).join('');
}

export type FactsOf = (field: string) => unknown;

function textOf(value: unknown): string {
  if (value === null || value === undefined) return '';
  if (Array.isArray(value)) return value.map(textOf).join(', ');
  return typeof value === 'number' && !Number.isInteger(value) ? String(Number(value.toPrecision(4))) : String(value);
}
