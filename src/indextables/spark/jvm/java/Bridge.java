package indextables.spark;

import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.function.Function;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.spark.api.python.PythonFunction;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.SparkSessionExtensions;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.RebalancePartitions;
import org.apache.spark.sql.types.StructType;
import scala.jdk.javaapi.CollectionConverters;

/** Methods that Python calls. */
public final class Bridge {
    /** Splits of a table among all live ones, given in Arrow's stream format. */
    public LiveSplits splits(
        String root, String version, String partitionSchema, byte[] files, int numLive, Function mayMatch,
        Function choose, Function verify) {
        StructType schema = Texts.schema(partitionSchema);
        return new LiveSplits(root, version, schema, Rows.of(files), numLive, mayMatch, choose, verify);
    }

    public NativeScan nativeScan(LiveSplits splits, String schema) {
        return new NativeScan(splits, Texts.schema(schema));
    }

    public PrivateScan.Opened opened(
        String format, String title, byte[] options, Function plan, Function push, Function aggregate, Function scan,
        Function describe) {
        return new PrivateScan.Opened(format, title, Texts.map(options), plan, push, aggregate, scan, describe);
    }

    public Dataset dataFrame(SparkSession session, NativeScan scan, PrivateScan.Opened opened) {
        scan.openedBy(opened);
        FoundRows.show(session.experimental());
        ScanRules.pruneSplits(((org.apache.spark.sql.classic.SparkSession) session).extensions());
        return session.baseRelationToDataFrame(scan.relation(session));
    }

    /** A private scan as a frame, without a Python planning process. */
    public Dataset privateFrame(SparkSession session, String schema, PrivateScan.Opened opened) {
        PrivateScan table = PrivateScan.shared(Texts.schema(schema), opened);
        LogicalPlan plan = Relations.of(table);
        return org.apache.spark.sql.classic.Dataset$.MODULE$.ofRows(
            (org.apache.spark.sql.classic.SparkSession) session, plan);
    }

    /** The rows of a frame in shares of about `bytes` bytes; rows with equal values in the columns stay together. */
    public Dataset rebalanced(Dataset frame, List columns, long bytes) {
        org.apache.spark.sql.classic.Dataset rows = (org.apache.spark.sql.classic.Dataset) frame;
        LogicalPlan plan = rows.queryExecution().analyzed();
        List keys = new ArrayList();
        List attributes = CollectionConverters.asJava(plan.output());
        for (int i = 0; i < columns.size(); i++) {
            for (int j = 0; j < attributes.size(); j++) {
                if (((Attribute) attributes.get(j)).name().equalsIgnoreCase((String) columns.get(i))) {
                    keys.add(attributes.get(j));
                }
            }
        }
        LogicalPlan shuffled = new RebalancePartitions(
            CollectionConverters.asScala(keys).toSeq(), plan, scala.Option.empty(), scala.Option.apply(Long.valueOf(bytes)));
        return org.apache.spark.sql.classic.Dataset$.MODULE$.ofRows(
            (org.apache.spark.sql.classic.SparkSession) frame.sparkSession(), shuffled);
    }

    /** The locations of tables that cached queries read, as JSON. */
    public String cachedPlaces(SparkSession session, String format) throws ReflectiveOperationException {
        return Texts.json(Caches.places(session, format));
    }

    /** Recompute the cached queries of tables at some locations. */
    public void recache(SparkSession session, List places, String format, Function move) throws ReflectiveOperationException {
        Caches.changed(session, places, format, move);
    }

    /** Drop the cached data of a frame, at any version of its tables. */
    public void uncache(SparkSession session, Dataset frame, boolean blocking) throws ReflectiveOperationException {
        Caches.forget(session, frame, blocking);
    }

    /** A frame of the same plan, with catalog tables at their newest versions. */
    public Dataset renewed(Dataset frame) {
        return Caches.renewed(frame);
    }

    /** The tables of a format behind a frame, as JSON. */
    public String sources(Dataset frame, String format) {
        return Sources.json(((org.apache.spark.sql.classic.Dataset) frame).queryExecution().analyzed(), format);
    }

    /**
     * `build` creates the functions of searches, which run like `pattern`, and `describe` describes them. `fields`
     * describes the indexing of the columns of a stream.
     */
    public void enable(
        SparkSession session, String format, Function open, PythonFunction pattern, Function build, Function describe,
        Function fields) throws ReflectiveOperationException {
        SearchFunctions.register(
            ((org.apache.spark.sql.classic.SparkSession) session).sessionState().functionRegistry(), pattern);
        SearchColumns.install(session, format, open, pattern, build, fields);
        Frames.register(((org.apache.spark.sql.classic.SparkSession) session).sessionState().tableFunctionRegistry());
        SearchCall.describeBy(describe);
        FoundRows.show(session.experimental());
        SparkSessionExtensions extensions = ((org.apache.spark.sql.classic.SparkSession) session).extensions();
        ScanRules.pruneSplits(extensions);
        ScanRules.replaceLoads(session, extensions, format, open);
    }

    /** Add our tables to the session catalog. Returns the class of a catalog that prevents it, or null. */
    public String joinCatalog(SparkSession session, String format, Function ask) throws ReflectiveOperationException {
        return CatalogTables.install(session, format, ask);
    }

    /** Keep a frame for a statement, and return the table function call that refers to it. */
    public String keepFrame(String name, Dataset frame) {
        Frames.keep(name, frame);
        return Frames.FUNCTION + "('" + name + "')";
    }

    public void dropFrame(String name) {
        Frames.drop(name);
    }

    /** The settings of a session, as JSON. */
    public String settings(SparkSession session) {
        return mapJson(session.conf().getAll());
    }

    /** Settings of Hadoop's file systems, as JSON: keys with some prefixes, and secrets from providers' files. */
    public String hadoopSettings(SparkSession session, List prefixes, List secrets, List providers) throws IOException {
        return Texts.json(HadoopSettings.read(
            ((org.apache.spark.sql.classic.SparkSession) session).sessionState().newHadoopConf(),
            prefixes, secrets, providers));
    }

    /** A Scala map as JSON. */
    public String mapJson(scala.collection.Map map) {
        return Texts.json(CollectionConverters.asJava(map));
    }

    /** Reason why Spark's own file systems cannot read a location; null if they can. */
    public String refusal(SparkSession session, String url) {
        try {
            org.apache.hadoop.conf.Configuration settings =
                ((org.apache.spark.sql.classic.SparkSession) session).sessionState().newHadoopConf();
            FileSystem.get(new Path(url).toUri(), settings);
            return null;
        } catch (Exception error) {
            return error.toString();
        } catch (LinkageError error) {
            return error.toString();
        }
    }
}
