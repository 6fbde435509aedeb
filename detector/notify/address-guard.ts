import { lookup as systemLookup } from 'node:dns/promises';
import { isIP, type LookupFunction } from 'node:net';
import ipaddr from 'ipaddr.js';

export interface Resolved {
  readonly address: string;
  readonly family: number;
}
/** All addresses of a name. */
export type Resolve = (name: string) => Promise<readonly Resolved[]>;

type Network = readonly [address: ipaddr.IPv4 | ipaddr.IPv6, bits: number];

/** Says what kind of address it was, never which: it is told to people who may not know the receiver's URL. */
export class AddressNotAllowed extends Error {
  readonly code = 'ADDRESS_NOT_ALLOWED';

  constructor(readonly range: string) {
    super(`address not allowed: ${range}`);
  }
}

/**
 * Where requests may go: public unicast addresses, and the networks that an operator has named. Loopback, private, link-local
 * (cloud metadata), carrier-grade NAT, multicast and reserved ranges, and IPv6 forms that carry an IPv4 address, are refused.
 * The check is made on the addresses that a connection is made to, so a name whose answer changes gains nothing.
 */
export class AddressGuard {
  readonly #allowed: readonly Network[];
  readonly #resolve: Resolve;

  /** @param allowed addresses and CIDR networks, as `networkOf` reads them */
  constructor(
    allowed: readonly string[],
    resolve: Resolve = (name) => systemLookup(name, { all: true, verbatim: true }),
  ) {
    this.#allowed = allowed.map(networkOf);
    this.#resolve = resolve;
  }

  /** Throws AddressNotAllowed. @param host of a URL, IPv6 with or without brackets; a name passes: `lookup` checks it */
  checkLiteral(host: string): void {
    const address = host.replace(/^\[|\]$/g, '');
    if (isIP(address)) this.#check(address);
  }

  /** For net.connect: one answer that is not allowed refuses the name. */
  readonly lookup: LookupFunction = (name, options, callback) => {
    this.#addressesOf(name).then(
      (addresses) => {
        const [first] = addresses;
        if (options.all) callback(null, [...addresses]);
        else callback(null, first?.address ?? '', first?.family ?? 0);
      },
      (error) => callback(error, ''),
    );
  };

  async #addressesOf(name: string): Promise<readonly Resolved[]> {
    const addresses = await this.#resolve(name);
    if (addresses.length === 0) throw Object.assign(new Error('no address'), { code: 'ENOTFOUND' });
    for (const { address } of addresses) this.#check(address);
    return addresses;
  }

  #check(text: string): void {
    // An IPv4-mapped IPv6 address is judged as the IPv4 address that it reaches.
    const address = ipaddr.process(text);
    const named = this.#allowed.some(
      ([network, bits]) => network.kind() === address.kind() && address.match(network, bits),
    );
    const range = rangeOf(address);
    if (!named && range !== 'unicast') throw new AddressNotAllowed(range);
  }
}

/** IPv6 assigns global unicast in 2000::/3 only; `::7f00:1`, which some stacks take for 127.0.0.1, lies beside it. */
const GLOBAL_IPV6: Network = [ipaddr.parse('2000::'), 3];

function rangeOf(address: ipaddr.IPv4 | ipaddr.IPv6): string {
  const range = address.range();
  if (range !== 'unicast' || address.kind() === 'ipv4') return range;
  return address.match(...GLOBAL_IPV6) ? 'unicast' : 'reserved';
}

/** Reads `10.0.0.0/8`, `fd00::/8` or a single address. Throws for anything else. */
export function networkOf(text: string): Network {
  const [host = '', bits] = text.split('/', 2);
  if (!isIP(host)) throw new Error(`"${text}" is not an address`);
  if (bits !== undefined) return ipaddr.parseCIDR(text);
  const address = ipaddr.process(text);
  return [address, address.kind() === 'ipv4' ? 32 : 128];
}
