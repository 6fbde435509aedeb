import { PicketError } from '../protocol/errors.js';

/** The error for an option that makes no sense. */
export const bad = (option: string, problem: string, remedy: string | undefined): PicketError =>
  new PicketError('bad_input', problem, { field: option, remedy });
