import java.io.*;
import java.util.logging.*;

/** Prints lines of Java's libraries, each form after "\001form|library|time". */
public class Forms {
    static void form(String name, String library, String told) {
        System.out.print("\u0001" + name + "|" + library + "|" + told + "\n");
    }

    static String version(Class<?> of) throws Exception {
        try (var jar = new java.util.jar.JarFile(new File(of.getProtectionDomain().getCodeSource().getLocation().toURI()))) {
            return jar.getManifest().getMainAttributes().getValue("Bundle-Version");
        }
    }

    static void logback(String name, String pattern, String told) throws Exception {
        form(name, "logback " + version(ch.qos.logback.classic.Logger.class), told);
        var context = new ch.qos.logback.classic.LoggerContext();
        var layout = new ch.qos.logback.classic.encoder.PatternLayoutEncoder();
        layout.setContext(context);
        layout.setPattern(pattern);
        layout.start();
        var console = new ch.qos.logback.core.ConsoleAppender<ch.qos.logback.classic.spi.ILoggingEvent>();
        console.setContext(context);
        console.setEncoder(layout);
        console.start();
        var log = context.getLogger("com.example.Train");
        log.setLevel(ch.qos.logback.classic.Level.ALL);
        log.addAppender(console);
        log.trace("needle trace");
        log.info("needle info");
        log.warn("needle warn");
        log.error("needle error");
    }

    static void log4j(String name, String pattern, String told) throws Exception {
        form(name, "log4j " + version(org.apache.logging.log4j.core.LoggerContext.class), told);
        var layout = org.apache.logging.log4j.core.layout.PatternLayout.newBuilder().withPattern(pattern).build();
        for (var level : new org.apache.logging.log4j.Level[] {org.apache.logging.log4j.Level.DEBUG, org.apache.logging.log4j.Level.INFO,
                org.apache.logging.log4j.Level.WARN, org.apache.logging.log4j.Level.ERROR, org.apache.logging.log4j.Level.FATAL})
            System.out.print(layout.toSerializable(org.apache.logging.log4j.core.impl.Log4jLogEvent.newBuilder().setLoggerName("org.apache.spark.SparkContext").setLevel(level)
                .setThreadName("main").setTimeMillis(System.currentTimeMillis())
                .setMessage(new org.apache.logging.log4j.message.SimpleMessage("needle " + level.name().toLowerCase())).build()));
    }

    public static void main(String[] args) throws Exception {
        form("java.util.logging", "Java " + Runtime.version().feature(), "none");
        var handler = new StreamHandler(System.out, new SimpleFormatter());
        handler.setLevel(Level.ALL);
        var log = Logger.getLogger("x");
        log.setUseParentHandlers(false);
        log.setLevel(Level.ALL);
        log.addHandler(handler);
        log.fine("needle fine");
        log.info("needle info");
        log.warning("needle warning");
        log.severe("needle severe");
        handler.flush();
        logback("logback", "%d{HH:mm:ss.SSS} [%thread] %-5level %logger{36} - %msg%n", "clock");
        logback("Spring Boot", "%d{yyyy-MM-dd'T'HH:mm:ss.SSSXXX} %5p 123 --- [%t] %-40.40logger{39} : %m%n", "full");
        log4j("Spark", "%d{yy/MM/dd HH:mm:ss} %p %c{1}: %m%n", "full");
        log4j("log4j", "%d %-5p [%t] %c{1} (%F:%L) - %m%n", "full");
        log4j("Kafka", "[%d] %p %m (%c)%n", "full");
        System.out.flush();
    }
}
