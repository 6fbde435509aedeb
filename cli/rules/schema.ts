import { Command } from 'commander';
import { ruleFileJsonSchema } from '../../detector/rules/schema.js';

export function schemaCommand(): Command {
  return new Command('schema')
    .description('Prints the JSON Schema of rule files, for editors.')
    .action(() => console.log(JSON.stringify(ruleFileJsonSchema(), null, 2)));
}
