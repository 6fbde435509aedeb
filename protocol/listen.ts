import { PicketError } from './errors.js';

export interface HttpAddress {
  readonly host: string;
  /** 0: any free one. */
  readonly port: number;
}

/** Has a server listen where the field `http` of a configuration says. Throws `bad_config` naming the part that is wrong. */
export async function listenAt(
  address: HttpAddress,
  listen: (address: HttpAddress) => Promise<unknown>,
): Promise<void> {
  try {
    await listen(address);
  } catch (cause) {
    const { code, message } = cause as NodeJS.ErrnoException;
    const [field, problem, remedy] =
      code === 'EADDRINUSE'
        ? ['http.port', 'is in use', 'stop what listens there, or choose another port (0: any free one)']
        : ['http.host', `cannot be listened at (${message})`, 'give an address of this machine'];
    throw new PicketError('bad_config', `${address.host}:${address.port} ${problem}`, { field, remedy }, { cause });
  }
}
