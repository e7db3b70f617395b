package indextables.spark;

import java.lang.reflect.Field;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.Function;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.analysis.NoSuchNamespaceException;
import org.apache.spark.sql.catalyst.analysis.NoSuchTableException;
import org.apache.spark.sql.catalyst.analysis.TableAlreadyExistsException;
import org.apache.spark.sql.connector.catalog.*;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.types.StructType;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.AbstractFunction0;

/**
 * The session catalog with our tables: the log defines their columns, and every scan and write gets their location and
 * options. Everything else passes to the original catalog.
 */
public final class CatalogTables extends CatalogMethods {
    private static final Set STATE_OPTIONS = new HashSet(
        Arrays.asList(new String[] {"search", "where", "columns", "limit", "score", "snippet"}));

    private final CatalogEntries entries;
    private final String format;
    private final Function ask;

    private CatalogTables(CatalogEntries entries, String format, Function ask) {
        this.entries = entries;
        this.format = format;
        this.ask = ask;
    }

    /**
     * Install the catalog in one session, whether or not the session has run queries. `ask` takes a request as JSON, and
     * returns JSON or a scan. Returns the class of a catalog that cannot be extended, or null.
     */
    static String install(SparkSession session, String format, Function ask) throws ReflectiveOperationException {
        org.apache.spark.sql.classic.SparkSession owner = (org.apache.spark.sql.classic.SparkSession) session;
        final CatalogManager manager = owner.sessionState().catalogManager();
        if (!CatalogParts.managerClass().isInstance(manager)) return manager.getClass().getName();
        Field field = CatalogParts.managerClass().getDeclaredField("defaultSessionCatalog");
        field.setAccessible(true);
        Function telling = new TellingSettings(owner, ask);
        synchronized (manager) {
            CatalogPlugin first = (CatalogPlugin) field.get(manager);
            if (!(first instanceof CatalogTables)) {
                CatalogTables ours = new CatalogTables(new CatalogEntries(manager.v1SessionCatalog(), format), format, telling);
                ours.setDelegateCatalog(first);
                field.set(manager, ours);
                first = ours;
            }
            CatalogPlugin used = (CatalogPlugin) owner.withActive(new AbstractFunction0() {
                public Object apply() {
                    return manager.v2SessionCatalog();  // uses the settings of the active session
                }
            });
            if (used == first) return null;
            if (!(used instanceof CatalogExtension)) return used.getClass().getName();
            ((CatalogExtension) used).setDelegateCatalog(first);
            return null;
        }
    }

    /** Adds our settings of a session to a request: a separate call from Python would take as long as the request. */
    private static final class TellingSettings implements Function {
        private static final String PREFIX = "spark.indextables.";
        private final SparkSession session;
        private final Function ask;

        TellingSettings(SparkSession session, Function ask) {
            this.session = session;
            this.ask = ask;
        }

        public Object apply(Object request) {
            Map settings = new HashMap();
            Object[] entries = CollectionConverters.asJava(session.conf().getAll()).entrySet().toArray();
            for (int i = 0; i < entries.length; i++) {
                Map.Entry entry = (Map.Entry) entries[i];
                if (((String) entry.getKey()).toLowerCase().startsWith(PREFIX)) settings.put(entry.getKey(), entry.getValue());
            }
            return ask.apply("{\"session\":" + Texts.json(settings) + ",\"request\":" + request + "}");
        }
    }

    public String toString() {
        return delegate.toString();
    }

    /** Options of a read that change the columns. */
    public Set tableStateOptionKeys() {
        return STATE_OPTIONS;
    }

    public Table loadTable(Identifier name) throws NoSuchTableException {
        return entries.has(name) ? load(name, new HashMap()) : super.loadTable(name);
    }

    public Table loadTable(Identifier name, String version) throws NoSuchTableException {
        return entries.has(name) ? load(name, one("versionAsOf", version)) : super.loadTable(name, version);
    }

    public Table loadTable(Identifier name, long micros) throws NoSuchTableException {
        return entries.has(name) ? load(name, one("timestampAsOf", moment(micros))) : super.loadTable(name, micros);
    }

    boolean has(Identifier name) {
        return entries.has(name);
    }

    Table load(Identifier name, Map given) throws NoSuchTableException {
        Map request = entries.request("load", name);
        request.put("given", given);
        return new CatalogLoad(entries.title(name), told(request), entries.shown(name), ask);
    }

    private Map told(Map request) {
        return Texts.map(Texts.checked(ask.apply(Texts.json(request))));
    }

    private static Map one(String key, Object value) {
        Map map = new HashMap();
        map.put(key, value);
        return map;
    }

    public Table createTable(Identifier name, StructType schema, Transform[] partitions, Map properties)
        throws TableAlreadyExistsException, NoSuchNamespaceException {
        return createTable(name, CatalogParts.columns(schema), partitions, properties);
    }

    public Table createTable(Identifier name, Column[] columns, Transform[] partitions, Map properties)
        throws TableAlreadyExistsException, NoSuchNamespaceException {
        if (!isOurs(properties)) return super.createTable(name, columns, partitions, properties);
        Map request = planned("create", name, columns, partitions, properties);
        Map told = told(request);
        entries.register(name, request, told);
        try {
            return load(name, new HashMap());
        } catch (NoSuchTableException error) {
            throw new IllegalStateException(error);
        }
    }

    private boolean isOurs(Map properties) {
        return format.equalsIgnoreCase((String) properties.get(TableCatalog.PROP_PROVIDER));
    }

    /** The description of a new table, for Python. */
    private Map planned(String what, Identifier name, Column[] columns, Transform[] partitions, Map properties)
        throws TableAlreadyExistsException, NoSuchNamespaceException {
        Map request = entries.newRequest(what, name, properties);
        request.put("schema", columns.length == 0 ? null : checked(name, columns).json());
        request.put("partitions", columnNames(partitions));
        return request;
    }

    private static StructType checked(Identifier name, Column[] columns) {
        for (int i = 0; i < columns.length; i++) {
            boolean isPlain = columns[i].defaultValue() == null && columns[i].identityColumnSpec() == null
                && columns[i].generationExpression() == null;
            if (!isPlain) {
                throw refused("SchemaError", "cannot create `" + name + "` because its column `" + columns[i].name()
                    + "` has a default or is generated, which a table cannot keep");
            }
        }
        return CatalogV2Util.v2ColumnsToStructType(columns);
    }

    private static List columnNames(Transform[] partitions) {
        List names = new ArrayList();
        for (int i = 0; i < partitions.length; i++) {
            boolean isColumn = partitions[i].name().equals("identity")
                && partitions[i].references()[0].fieldNames().length == 1;
            if (!isColumn) {
                throw refused("ConfigError", "cannot partition by `" + partitions[i].describe()
                    + "` because a table is partitioned by columns");
            }
            names.add(partitions[i].references()[0].fieldNames()[0]);
        }
        return names;
    }

    static IllegalArgumentException refused(String kind, String message) {
        return new IllegalArgumentException("indextables.errors." + kind + ": " + message);
    }

    StagedTable staged(Identifier name, NewTable info)
        throws TableAlreadyExistsException, NoSuchNamespaceException {
        if (!isOurs(info.properties())) return CatalogOthers.created((TableCatalog) delegate, name, info);
        return staged(name, planned("stage", name, info.columns(), info.partitions(), info.properties()));
    }

    private CatalogStaged staged(Identifier name, Map request) {
        return new CatalogStaged(this, entries, name, request, told(request), ask);
    }

    StagedTable restaged(Identifier name, NewTable info)
        throws NoSuchNamespaceException, NoSuchTableException {
        if (!entries.has(name) && !isOurs(info.properties())) {
            return CatalogOthers.replaced((TableCatalog) delegate, name, info);
        }
        if (!entries.has(name) || !isOurs(info.properties())) {
            super.loadTable(name);
            throw refused("ConfigError", "cannot replace `" + name + "` because the new table would have another format"
                + "\nhint: drop it first");
        }
        Map request = entries.request("restage", name);
        request.put("schema", checked(name, info.columns()).json());
        request.put("partitions", columnNames(info.partitions()));
        request.put("properties", new HashMap(info.properties()));
        return staged(name, request);
    }

    StagedTable stagedAnyway(Identifier name, NewTable info) throws NoSuchNamespaceException {
        try {
            return tableExists(name) ? restaged(name, info) : staged(name, info);
        } catch (NoSuchTableException error) {
            throw new IllegalStateException(error);
        } catch (TableAlreadyExistsException error) {
            throw new IllegalStateException(error);
        }
    }

    /** Settings are properties of the table itself; the catalog keeps all other properties. */
    public Table alterTable(Identifier name, TableChange[] changes) throws NoSuchTableException {
        if (!entries.has(name)) return super.alterTable(name, changes);
        Map properties = new HashMap();
        for (int i = 0; i < changes.length; i++) {
            if (changes[i] instanceof TableChange.SetProperty) {
                TableChange.SetProperty set = (TableChange.SetProperty) changes[i];
                properties.put(set.property(), set.value());
            } else if (changes[i] instanceof TableChange.RemoveProperty) {
                properties.put(((TableChange.RemoveProperty) changes[i]).property(), null);
            } else {
                throw new UnsupportedOperationException("indextables.errors.SchemaError: cannot alter `" + name
                    + "` because the columns and partitions of a table do not change"
                    + "\nhint: write a new table with `CREATE TABLE ... AS SELECT`");
            }
        }
        Map request = entries.request("alter", name);
        request.put("properties", properties);
        List kept = new ArrayList();
        List left = (List) altered(request).get("left");
        for (int i = 0; i < changes.length; i++) {
            Object key = changes[i] instanceof TableChange.SetProperty
                ? ((TableChange.SetProperty) changes[i]).property()
                : ((TableChange.RemoveProperty) changes[i]).property();
            if (left.contains(key)) kept.add(changes[i]);
        }
        if (!kept.isEmpty()) super.alterTable(name, (TableChange[]) kept.toArray(new TableChange[0]));
        return load(name, new HashMap());
    }

    /** Wraps errors, because Spark hides the message of an illegal argument here. */
    private Map altered(Map request) {
        try {
            return told(request);
        } catch (IllegalArgumentException error) {
            throw new UnsupportedOperationException(error.getMessage());
        }
    }
}
