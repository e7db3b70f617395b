package indextables.spark;

import java.util.Arrays;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.Function;
import org.apache.spark.sql.catalyst.util.CharVarcharUtils;
import org.apache.spark.sql.connector.catalog.Column;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.catalog.TableCatalog;
import org.apache.spark.sql.connector.expressions.Expressions;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.connector.read.Batch;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.execution.datasources.v2.python.PythonDataSourceV2;
import org.apache.spark.sql.execution.datasources.v2.python.PythonScan;
import org.apache.spark.sql.execution.datasources.v2.python.PythonTable;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** A catalog table at one version, described by its log. */
class CatalogLoad extends PythonTable {
    final Map told;
    final Function ask;
    private final String title;
    private final Map properties;
    private final Map opened = new HashMap();

    CatalogLoad(String title, Map told, Shown shown, Function ask) {
        super(newSource((String) told.get("format")), (String) told.get("format"), shown.commented(schemaOf(told)));
        this.title = title;
        this.told = told;
        this.ask = ask;
        this.properties = shown.properties(told);
    }

    static PythonDataSourceV2 newSource(String format) {
        PythonDataSourceV2 source = new PythonDataSourceV2();
        source.setShortName(format);
        return source;
    }

    private static StructType schemaOf(Map told) {
        return Texts.schema((String) told.get("schema"));
    }

    public String name() {
        return title;
    }

    public String toString() {
        return title;
    }

    /** Distinguishes a table from one that was created again under its name. */
    public String id() {
        return (String) told.get("id");
    }

    /** Spark asks the catalog for the newest version at the start of a query, so all scans of a query read one version. */
    public String version() {
        return (String) told.get("version");
    }

    public Map properties() {
        return properties;
    }

    /** Columns of `CHAR` and `VARCHAR` with their types, for statements that describe a table. */
    public Column[] columns() {
        return CatalogParts.columns(CharVarcharUtils.getRawSchema(schema()));
    }

    public Transform[] partitioning() {
        List columns = (List) told.get("partitions");
        Transform[] transforms = new Transform[columns.size()];
        for (int i = 0; i < transforms.length; i++) transforms[i] = Expressions.identity(quoted((String) columns.get(i)));
        return transforms;
    }

    static String quoted(String column) {
        return "`" + column.replace("`", "``") + "`";
    }

    public Set capabilities() {
        return new HashSet(Arrays.asList(new Object[] {
            TableCapability.BATCH_READ, TableCapability.MICRO_BATCH_READ, TableCapability.BATCH_WRITE,
            TableCapability.STREAMING_WRITE, TableCapability.TRUNCATE, TableCapability.OVERWRITE_BY_FILTER,
            TableCapability.OVERWRITE_DYNAMIC}));
    }

    /** The best scan for a read. All reads of this table read one version. */
    PrivateScan.Opened opened(CaseInsensitiveStringMap options) {
        synchronized (opened) {
            Map given = options.asCaseSensitiveMap();
            PrivateScan.Opened known = (PrivateScan.Opened) opened.get(given);
            if (known == null) {
                CatalogMethods.check(given);
                known = (PrivateScan.Opened) Texts.checked(ask.apply(Texts.json(request("open", given))));
                opened.put(given, known);
            }
            return known;
        }
    }

    Map request(String what, Map given) {
        Map request = new HashMap();
        request.put("do", what);
        request.put("name", title);
        request.put("path", told.get("location"));
        request.put("stored", told.get("stored"));
        request.put("given", given);
        request.put("version", told.get("version"));
        request.put("id", told.get("id"));
        return request;
    }

    /** For sessions without a rule that replaces the scan, as in streams. */
    public ScanBuilder newScanBuilder(CaseInsensitiveStringMap options) {
        CatalogMethods.check(options.asCaseSensitiveMap());
        Map asked = Texts.map(Texts.checked(ask.apply(Texts.json(request("merge", options.asCaseSensitiveMap())))));
        Map pinned = new HashMap(asked);
        pinned.put("versionAsOf", told.get("version"));
        return new PlainScan((String) told.get("format"), schema(), asked, pinned);
    }

    public WriteBuilder newWriteBuilder(LogicalWriteInfo info) {
        return new CatalogWrite(this, info, false);
    }

    /** A copy that is equal to this table at every version. */
    CatalogLoad unversioned() {
        Map any = new HashMap(told);
        any.put("version", "");
        return new CatalogLoad(title, any, new Shown(new HashMap(), new StructType()), ask);
    }

    /** Tables are equal if their rows are equal. */
    public boolean equals(Object other) {
        if (other == null || other.getClass() != getClass()) return false;
        Map known = ((CatalogLoad) other).told;
        return told.get("id").equals(known.get("id")) && told.get("version").equals(known.get("version"))
            && told.get("options").equals(known.get("options"));
    }

    public int hashCode() {
        return told.get("id").hashCode() * 31 + told.get("version").hashCode();
    }

    /** The catalog's part of a table. */
    static final class Shown {
        private final Map properties;
        private final StructType schema;

        Shown(Map properties, StructType schema) {
            this.properties = properties;
            this.schema = schema;
        }

        StructType commented(StructType columns) {
            StructField[] fields = new StructField[columns.length()];
            for (int i = 0; i < fields.length; i++) {
                fields[i] = columns.fields()[i];
                scala.Option place = schema.getFieldIndex(fields[i].name());
                if (place.isEmpty()) continue;
                scala.Option comment = schema.fields()[((Integer) place.get()).intValue()].getComment();
                if (comment.isDefined()) fields[i] = fields[i].withComment((String) comment.get());
            }
            return new StructType(fields);
        }

        /** The catalog's properties and the log's, without secrets. */
        Map properties(Map told) {
            Map all = new HashMap(properties);
            all.putAll((Map) told.get("configuration"));
            Object[] keys = all.keySet().toArray();
            List secrets = (List) told.get("secrets");
            for (int i = 0; i < keys.length; i++) {
                String key = (String) keys[i];
                if (secrets.contains(key)) all.remove(key);
                if (key.startsWith(TableCatalog.OPTION_PREFIX)
                    && secrets.contains(key.substring(TableCatalog.OPTION_PREFIX.length()))) all.remove(key);
            }
            return all;
        }
    }

    /** A scan by Python workers, of one version or of a stream. */
    private static final class PlainScan implements ScanBuilder, Scan {
        private final String format;
        private final StructType schema;
        private final Map asked;
        private final Map pinned;

        PlainScan(String format, StructType schema, Map asked, Map pinned) {
            this.format = format;
            this.schema = schema;
            this.asked = asked;
            this.pinned = pinned;
        }

        private PythonScan scan(Map options) {
            return Relations.scan(newSource(format), format, schema, new CaseInsensitiveStringMap(options));
        }

        public Scan build() {
            return this;
        }

        public StructType readSchema() {
            return schema;
        }

        public String description() {
            return format + " " + asked.get("path");
        }

        public Batch toBatch() {
            return scan(pinned).toBatch();
        }

        public MicroBatchStream toMicroBatchStream(String checkpoint) {
            return scan(asked).toMicroBatchStream(checkpoint);
        }

        public org.apache.spark.sql.connector.metric.CustomMetric[] supportedCustomMetrics() {
            return scan(asked).supportedCustomMetrics();
        }

        public Scan.ColumnarSupportMode columnarSupportMode() {
            return scan(asked).columnarSupportMode();
        }
    }
}
