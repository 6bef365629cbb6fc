/** What the checks of `doctor` look at. Collected elsewhere; what is left out is not known there, and not checked. */
import type { Member, Tier } from '../../schemas/admin/admin.ts';
import type { Overweight } from '../../schemas/events/overweight.ts';
import type { LogInspection, TopicReading } from '../../shared/log/core/control-log.ts';
import type { RefusedRecords } from '../../shared/log/core/record-mac.ts';
import type { UsageFault } from '../usage/check-usage.ts';

interface MachineFacts {
  /** Such as `20.18.1`. */
  readonly node: string;
  /** Why the SQLite module does not load. */
  readonly sqliteFault?: string;
  readonly openFilesMax?: number;
  /** Where the data folder or the working folder is. */
  readonly diskFreeBytes?: number;
  /** Files with secrets that others than their owner can read. */
  readonly readableSecrets?: readonly string[];
  /** A data folder in use, and files in it, that others than their owner can enter or read. */
  readonly openToOthers?: readonly string[];
  /** Folders that a process is to write to and cannot. */
  readonly unwritable?: readonly string[];
  /** Files of the data folder that are larger than they may become. */
  readonly overgrown?: readonly { readonly name: string; readonly bytes: number }[];
  /** Ports that a process is to listen on, and another one has; left out where none was tried. */
  readonly takenPorts?: readonly number[];
}

interface LogFacts {
  readonly reachable: boolean;
  /** Why nothing can be written to it, although it can be read. */
  readonly writeFault?: string | undefined;
  /** Why not, where that is known. */
  readonly reason?: string | undefined;
  readonly position: number;
  /** Why the fold does not continue. */
  readonly fault?: string | undefined;
  /** Since the last proof that all of the log is folded; null before the first. */
  readonly freshSeconds: number | null;
  readonly skipped: number;
  readonly isSigned: boolean;
  /** Rows of the state differ from its digest. */
  readonly divergedAt?: number | undefined;
  readonly diskFreeBytes?: number | undefined;
  /** How this replica reads each topic. */
  readonly topics?: readonly TopicReading[] | undefined;
  /** False while this replica does not read back its own reports, so that the silence of others proves nothing. */
  readonly hasReports?: boolean | undefined;
  /** Of a log on Kafka. */
  readonly brokers?: LogInspection | undefined;
  /** Topics with records that did not count for want of a valid MAC, since the start. */
  readonly refused?: readonly (RefusedRecords & { readonly topic: string })[] | undefined;
  readonly history?:
    | { readonly position: number; readonly bytes: number; readonly fault?: string | undefined }
    | undefined;
}

interface ControlPlaneFacts {
  readonly name: string;
  /** The one that collects the facts. */
  readonly isSelf: boolean;
  readonly position: number;
  /** At an equal position and fold version its digest is another. */
  readonly isDiverged: boolean;
  readonly foldVersion: number;
  readonly sameLog: boolean;
  readonly maySign: boolean;
  readonly silentSeconds: number;
  /** By how much its clock is ahead of that of this replica; left out where it is not known. */
  readonly clockAheadSeconds?: number | undefined;
  readonly fault?: string | undefined;
}

interface GatewayFacts {
  readonly name: string;
  readonly state: 'SYNCED' | 'LAGGING' | 'STALE' | 'DIVERGED';
  readonly lagEvents: number;
  readonly freshSeconds: number | null;
  readonly silentSeconds: number;
  readonly clockAheadSeconds?: number | undefined;
  readonly stalePolicy?: 'fence' | 'serve' | undefined;
  readonly foldVersion: number;
  readonly sameLog: boolean;
  readonly processes: number;
  readonly fault?: string | undefined;
  /** Of the certificate of its listeners; left out where there is no TLS. */
  readonly daysLeft?: number | undefined;
  /** It keeps decisions, and answers no question for one. */
  readonly isMute?: boolean | undefined;
  /** It has no file descriptor left for connections to nodes. */
  readonly isOutOfFiles?: boolean | undefined;
}

interface NodeFacts {
  readonly id: string;
  /** `pool`, `stack:ID` or `organisation:ID`. */
  readonly place: string;
  readonly up: boolean;
  readonly drained: boolean;
  readonly reason?: string | undefined;
  /** Name of the replica that reports on it. */
  readonly owner?: string | undefined;
  /** Catalog names of what it has loaded. */
  readonly models: readonly string[];
  /** Models that its agent could not load, and why. */
  readonly failedLoads: readonly { readonly model: string; readonly reason?: string | undefined }[];
  /** Gateways that have sent it requests for a while without an answer to any of them. */
  readonly unansweredAt?: readonly string[] | undefined;
  /** Gateways that it reported more tokens to than a request can use, in the last hour. */
  readonly overstatedTo?: readonly string[] | undefined;
  /** Unusual, ambiguous or unknown forms of its answers in the last hour, each after its model. */
  readonly oddForms?: readonly string[] | undefined;
  /** It reported more than the log takes of one node, in the last hour. */
  readonly withheld?: boolean | undefined;
  /** Changes of its health in the last hour. */
  readonly changesLastHour?: number | undefined;
}

interface OrganisationFacts {
  readonly id: string;
  readonly tier: string | null;
  readonly activeKeys: number;
}

interface KeyFacts {
  readonly id: string;
  readonly organisation: string;
  /** null: never. */
  readonly expiresInDays: number | null;
  readonly createdBy: string;
}

interface ModelFacts {
  readonly catalog: readonly string[];
  /** Assigned models by place: `pool`, `stack:ID`. */
  readonly installs: readonly { readonly place: string; readonly model: string }[];
  readonly tiers: readonly Omit<Tier, 'rank'>[];
  readonly anonymousModels?: '*' | readonly string[] | undefined;
  readonly organisations: readonly OrganisationFacts[];
  readonly members: readonly Pick<Member, 'organisation' | 'person'>[];
  /** Active keys that expire, or whose creator is a person. */
  readonly keys: readonly KeyFacts[];
}

interface LimitFacts {
  /** Damage in usage.db, and days on which its totals and the rows kept for billing differ. */
  readonly fileFaults: readonly UsageFault[];
  /** Tiers with a model of theirs that counts as more than they carry in flight. */
  readonly overweight: readonly Overweight[];
  readonly usageFaults: Readonly<Record<string, number>>;
  /** Periods in which the counters of the gateways and the rows of usage differ at rest, in tokens. */
  readonly counterDifferences: readonly {
    readonly organisation: string;
    readonly period: string;
    readonly counters: number;
    readonly rows: number;
  }[];
}

interface ListenerFacts {
  readonly name: string;
  readonly isLoopback: boolean;
  /** Of its certificate; left out where there is no TLS. */
  readonly daysLeft?: number | undefined;
  /** Why its certificate cannot be used. */
  readonly certificateFault?: string | undefined;
}

/** Answers of a gateway to the same request for a stack of another organisation, and for one that is not there. */
interface ProbeFacts {
  readonly gateway: string;
  readonly foreign: string;
  readonly missing: string;
}

/** Changes that are released in waves. */
interface ChangeFacts {
  readonly open?:
    | {
        readonly id: string;
        readonly openHours: number;
        /** Why it does not continue by itself, where that is known. */
        readonly stuck?: string | undefined;
        /** Gateways of its waves that do not follow the log, and why. */
        readonly halted: readonly { readonly gateway: string; readonly reason: string }[];
      }
    | undefined;
  /** By a control plane, in the last day. */
  readonly withdrawn: readonly { readonly id: string; readonly hoursAgo: number; readonly reason: string }[];
}

export interface DoctorFacts {
  /** Time of the facts, ms since 1970; undefined if no check depends on it. */
  readonly now?: number | undefined;
  readonly machine?: MachineFacts | undefined;
  readonly log?: LogFacts | undefined;
  readonly controlPlanes?: readonly ControlPlaneFacts[] | undefined;
  readonly gateways?: readonly GatewayFacts[] | undefined;
  readonly probe?: ProbeFacts | undefined;
  readonly nodes?: readonly NodeFacts[] | undefined;
  readonly models?: ModelFacts | undefined;
  readonly limits?: LimitFacts | undefined;
  readonly listeners?: readonly ListenerFacts[] | undefined;
  readonly changes?: ChangeFacts | undefined;
}
