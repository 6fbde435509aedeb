import assert from 'node:assert/strict';
import { it } from 'node:test';
import { parseTemplate, renderTemplate, type Template } from '../../../detector/rules/template.js';

const facts: Record<string, unknown> = {
  job: 'j',
  ranks: [1, 2],
  stage: null,
  'cost.step_percent': 12.34567,
  'evidence.n': 3,
};
const render = (text: string): string => renderTemplate(parseTemplate(text) as Template, (field) => facts[field]);

it('fills in fields, in its own spelling and in that of Prometheus', () => {
  assert.equal(render('no field'), 'no field');
  assert.equal(render('{{job}}: ranks {{ ranks }}, stage {{ stage }}.'), 'j: ranks 1, 2, stage .');
  assert.equal(render('{{ $labels.job }} {{ $value }} % {{ evidence.n }}'), 'j 12.35 % 3');
});

it('does not read what it fills in as a template again', () => {
  assert.equal(
    renderTemplate(parseTemplate('{{ job }}') as Template, () => '{{ run }}'),
    '{{ run }}',
  );
});
