import type { TestResult } from './test-run.js';

/** The results as JUnit XML, which CI systems show. */
export function junitXml(results: readonly TestResult[]): string {
  const files = new Map<string, TestResult[]>();
  for (const result of results) files.set(result.file, [...(files.get(result.file) ?? []), result]);
  const suites = [...files].map(([file, tests]) => {
    const failed = tests.filter(({ failures }) => failures.length > 0).length;
    const cases = tests.map((test) => testCase(file, test));
    return `  <testsuite name="${escaped(file)}" tests="${tests.length}" failures="${failed}">\n${cases.join('')}  </testsuite>\n`;
  });
  return `<?xml version="1.0" encoding="UTF-8"?>\n<testsuites>\n${suites.join('')}</testsuites>\n`;
}

function testCase(file: string, { name, seconds, failures }: TestResult): string {
  const start = `    <testcase classname="${escaped(file)}" name="${escaped(name)}" time="${seconds.toFixed(3)}"`;
  if (failures.length === 0) return `${start}/>\n`;
  const texts = failures.map(({ message, differences }) => {
    const text = escaped([message, ...differences].join('\n'));
    return `      <failure message="${escaped(message)}">${text}</failure>\n`;
  });
  return `${start}>\n${texts.join('')}    </testcase>\n`;
}

const ENTITIES: Record<string, string> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;', '\n': '&#10;' };

/** Control characters, which XML cannot hold, become U+FFFD. */
const escaped = (text: string): string =>
  text.replace(/[&<>"\n]/g, (character) => ENTITIES[character] as string).replace(/\p{Cc}/gu, '\ufffd');
