// Prints lines of Node's libraries, each form after "\x01form|library|time".
const form = (name, lib, told) => process.stdout.write(`\x01${name}|${lib} ${require(lib + '/package.json').version}|${told}\n`);
const all = (log, levels) => levels.forEach((l) => log[l]('needle ' + l));
form('pino', 'pino', 'full');
all(require('pino')({ level: 'trace' }, require('pino').destination({ dest: 1, sync: true })), ['debug', 'info', 'warn', 'error', 'fatal']);
form('bunyan', 'bunyan', 'full');
all(require('bunyan').createLogger({ name: 'x', level: 'trace' }), ['debug', 'info', 'warn', 'error', 'fatal']);
const w = require('winston'), levels = ['debug', 'info', 'warn', 'error'];
const winston = (...f) => w.createLogger({ level: 'debug', format: w.format.combine(...f), transports: [new w.transports.Stream({ stream: process.stdout })] });
form('winston: JSON', 'winston', 'full');
all(winston(w.format.timestamp(), w.format.json()), levels);
form('winston: simple', 'winston', 'none');
all(winston(w.format.simple()), levels);
form('winston: printf', 'winston', 'full');
all(winston(w.format.timestamp(), w.format.printf((i) => `${i.timestamp} [${i.level}]: ${i.message}`)), levels);
