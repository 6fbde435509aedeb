import { writeFileSync } from 'node:fs';
import { Command, InvalidArgumentError } from 'commander';
import { isTestPath } from '../../detector/rules/rule-file.js';
import { PicketError } from '../../protocol/errors.js';
import { cannotWrite } from '../config-file.js';
import { junitXml } from './junit.js';
import { readRuleTexts } from './read.js';
import { runTestFile, type TestResult } from './test-run.js';

interface Options {
  readonly run: RegExp;
  readonly junit?: string;
  readonly diff?: true;
}

export function testCommand(): Command {
  return new Command('test')
    .description('Runs the tests of rules; exit 1 where one fails.')
    .argument('[path...]', 'test files, or folders with *.test.yml files', ['rules'])
    .option('--run <regex>', 'only tests whose names fit', regexOf, /^/)
    .option('--junit <file>', 'also write the results as JUnit XML')
    .option('--diff', 'show field by field what was not as expected')
    .action(async (paths: string[], { run, junit, diff }: Options) => {
      const files = await readRuleTexts(paths, isTestPath);
      if (files.length === 0)
        throw new PicketError('bad_input', 'no test files were found', {
          file: paths.join(', '),
          remedy: 'name a file or a folder with *.test.yml files',
        });
      const results: TestResult[] = [];
      for (const file of files) results.push(...(await runTestFile(file, (path) => readRuleTexts([path]), run)));
      if (junit !== undefined) writeText(junit, junitXml(results));
      console.log(reportOf(results, diff === true));
      if (results.length === 0 || results.some(({ failures }) => failures.length > 0)) process.exitCode = 1;
    });
}

function regexOf(text: string): RegExp {
  try {
    return new RegExp(text);
  } catch {
    throw new InvalidArgumentError('is not a regular expression.');
  }
}

function reportOf(results: readonly TestResult[], withDifferences: boolean): string {
  const lines = results.flatMap(({ file, name, failures }) => [
    `${failures.length === 0 ? 'ok  ' : 'FAIL'} ${file}: ${name}`,
    ...failures.flatMap(({ message, differences }) => [
      `     ${message}`,
      ...(withDifferences ? differences.flatMap((each) => each.split('\n').map((line) => `       ${line}`)) : []),
    ]),
  ]);
  const failed = results.filter(({ failures }) => failures.length > 0).length;
  return [...lines, `${results.length - failed} passed, ${failed} failed`].join('\n');
}

function writeText(file: string, text: string): void {
  try {
    writeFileSync(file, text);
  } catch (cause) {
    throw cannotWrite(cause, file);
  }
}
